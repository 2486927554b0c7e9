"""Who may reach the page: names, origins, tokens, cookies, and what every answer forbids the browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from controller.config.load import load_settings
from controller.domain.errors import ConfigError
from controller.process.access.named_tokens import NamedTokens, new_token
from controller.process.access.tokens import TokenFile
from controller.ui.page import Page
from controller.ui.security import CSP, Rules, hosts_of
from controller.ui.server import STATIC, make_page_app, page_rules
from tests.component.ui.conftest import token_file

ADDRESS = "http://127.0.0.1:8180"
JSON = {"Content-Type": "application/json"}


def page_with(page: Page, rules: Rules) -> TestClient:
    """The same tables by other rules."""
    other = Page(page.settings, rules, ask_kafka=False)
    other.cluster = page.cluster
    return TestClient(make_page_app(other), base_url=ADDRESS)


@pytest.mark.parametrize("host", ["127.0.0.1:8180", "localhost:8180", "LOCALHOST", "[::1]:8180"])
def test_the_names_of_a_page_on_loopback(client: TestClient, host: str) -> None:
    assert client.get("/api/now", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example:8180", "127.0.0.1.evil.example", "localhost.evil.example:8180", ""])
def test_a_name_that_only_resolves_to_this_machine_is_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/api/now", "/healthz", "/static/app.js"):
        answer = client.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]) == (421, "unknown_host"), path


def test_a_configured_name_is_accepted() -> None:
    assert hosts_of("0.0.0.0", ["Ballast.Example"]) == {"localhost", "127.0.0.1", "::1", "ballast.example"}
    assert "10.1.2.3" in hosts_of("10.1.2.3", ())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_website_may_not_ask(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.get("/api/now", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "another_site")
    posted = client.post("/api/session", content=b"{}", headers={**JSON, "Origin": ADDRESS, **headers})
    assert posted.status_code == 403


def test_the_page_itself_may_ask(client: TestClient) -> None:
    own = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    assert client.get("/api/now", headers=own).status_code == 200
    link = client.get("/now", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert link.status_code == 200  # from a chat: only the static page, which then asks as itself


def test_a_change_without_an_origin_is_refused(client: TestClient) -> None:
    assert client.post("/api/session", content=b"{}", headers=JSON).status_code == 403


def test_every_answer_forbids_what_is_not_this_page(client: TestClient) -> None:
    for path in ("/", "/api/now", "/static/app.js", "/nothing", "/healthz"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == CSP, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
    assert client.get("/api/now").headers["cache-control"] == "no-store"
    assert "unsafe" not in CSP


def test_the_front_end_needs_no_other_site_and_nothing_that_the_policy_forbids() -> None:
    for file in STATIC.rglob("*.*"):
        text = file.read_text(encoding="utf-8")
        foreign = re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"'`)]*", text)
        assert [url for url in foreign if "www.w3.org" not in url] == [], file.name
        if file.suffix == ".js":
            found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
            assert found == [], file.name
        if file.suffix == ".html":
            assert re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", text) == []


def test_beyond_loopback_nothing_is_told_without_a_token(page: Page, tmp_path: Path) -> None:
    token, line = new_token("anna")
    people = NamedTokens(token_file(tmp_path, "# those on call", line))
    with page_with(page, Rules(hosts_of("127.0.0.1", ()), people, must_log_in=True)) as client:
        assert client.get("/").status_code == 200
        for path in ("/api/now", "/api/live", "/api/nothing"):
            assert client.get(path).json()["error"] == "log_in"
        told = client.get("/api/session").json()
        assert (told["name"], told["reads"], told["can_log_in"]) == (None, False, True)
        assert "cluster" not in told
        assert client.get("/healthz").json() == {"ok": True}
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get("/api/now", headers=bearer).status_code == 200
        assert client.get("/api/now", headers={"Authorization": f"Bearer {token}0"}).status_code == 401
        assert client.get(f"/api/now?token={token}").status_code == 401


def test_a_log_in_gives_a_cookie_that_no_other_site_can_use(page: Page, tmp_path: Path) -> None:
    token, line = new_token("anna")
    file = token_file(tmp_path, line)
    rules = Rules(hosts_of("127.0.0.1", ()), NamedTokens(file), must_log_in=True, secure=True, port=8180)
    with page_with(page, rules) as client:
        own = {"Origin": ADDRESS}
        answer = client.post("/api/session", json={"token": f" {token}\n"}, headers=own)
        assert (answer.status_code, answer.json()["name"]) == (200, "anna")
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(cookie.split("; "))
        assert token not in cookie
        shown = {"Cookie": cookie.partition(";")[0]}
        assert client.get("/api/now", headers=shown).status_code == 200
        assert client.get("/api/session", headers=shown).json()["name"] == "anna"

        file.write_text(new_token("bert")[1])  # anna has left
        assert client.get("/api/now", headers=shown).status_code == 401
        file.write_text(line)
        assert client.get("/api/now", headers=shown).status_code == 200
        assert client.delete("/api/session", headers={**own, **shown}).status_code == 200
        assert client.get("/api/now", headers=shown).status_code == 401


def test_who_is_taken_out_is_out_whatever_else_is_wrong_with_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (anna, hers), (bert, his) = new_token("anna"), new_token("bert")
    file = token_file(tmp_path, hers, his)
    people = NamedTokens(file)
    assert (people.name_of(anna), people.name_of(bert)) == ("anna", "bert")
    file.write_text(f"carol is new\n{his}\n")
    assert (people.name_of(anna), people.name_of(bert)) == (None, "bert")
    assert "line 1 is not `name: hash`; its other lines are in force" in caplog.text
    file.write_text("# nobody is on call\n")
    assert (people.name_of(anna), people.name_of(bert)) == (None, None)
    file.write_text(f"{hers}\n")
    assert people.name_of(anna) == "anna"
    file.unlink()  # as while a secret is exchanged
    assert people.name_of(anna) == "anna"
    file.write_text(f"{his}\n")
    assert (people.name_of(anna), people.name_of(bert)) == (None, "bert")


def test_a_change_that_another_site_asks_for_is_refused_whatever_it_shows(page: Page, tmp_path: Path) -> None:
    token, line = new_token("anna")
    rules = Rules(hosts_of("127.0.0.1", ()), NamedTokens(token_file(tmp_path, line)))
    with page_with(page, rules) as client:
        shown = {**JSON, "Authorization": f"Bearer {token}"}
        answer = client.post("/api/act", content=b"{}", headers={**shown, "Sec-Fetch-Site": "cross-site"})
        assert (answer.status_code, answer.json()["error"]) == (403, "another_site")
        assert client.post("/api/act", content=b"{}", headers=shown).json()["error"] == "kind"


def test_a_wrong_token_of_a_program_is_called_wrong(page: Page, tmp_path: Path) -> None:
    rules = Rules(hosts_of("127.0.0.1", ()), NamedTokens(token_file(tmp_path, new_token("anna")[1])))
    with page_with(page, rules) as client:
        answer = client.post("/api/act", content=b"{}", headers={**JSON, "Authorization": "Bearer guess"})
        assert (answer.status_code, answer.json()["error"]) == (403, "unknown_token")
        assert client.get("/api/act").json()["text"] == "GET is not for this address"


@pytest.mark.parametrize("body", [{"token": ""}, {"token": "guess"}, {"token": 7}, {}])
def test_a_wrong_token_is_refused(page: Page, tmp_path: Path, body: dict[str, object]) -> None:
    people = NamedTokens(token_file(tmp_path, new_token("anna")[1]))
    with page_with(page, Rules(hosts_of("127.0.0.1", ()), people)) as client:
        answer = client.post("/api/session", json=body, headers={"Origin": ADDRESS})
        assert (answer.status_code, answer.json()["error"]) == (403, "unknown_token")
        assert "set-cookie" not in answer.headers


def test_a_token_of_http_lets_read_and_names_nobody(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "http.token"
    file.write_text("a-reading-token\n")
    with page_with(page, Rules(hosts_of("127.0.0.1", ()), readers=TokenFile(file), must_log_in=True)) as client:
        bearer = {"Authorization": "Bearer a-reading-token"}
        told = client.get("/api/session", headers=bearer).json()
        assert (told["name"], told["can_act"]) == (None, False)
        assert client.get("/api/now", headers=bearer).status_code == 200


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "it names nobody"),
        ("# nobody\n", "it names nobody"),
        ("anna: secret\n", "line 1"),
        ("\nan na: 00\n", "line 2"),
    ],
)
def test_a_token_file_that_is_of_no_use_prevents_a_start(tmp_path: Path, content: str, named: str) -> None:
    file = tmp_path / "people"
    file.write_text(content)
    with pytest.raises(ConfigError, match=named) as caught:
        NamedTokens(file)
    assert "secret" not in str(caught.value)


def test_where_the_page_may_listen(tmp_path: Path) -> None:
    settings = load_settings(None, "local", [], env={})
    assert page_rules(settings, "127.0.0.1", None)[0].must_log_in is False
    with pytest.raises(ConfigError, match=r"ui.bind_host = 0\.0\.0\.0: HTTP beyond loopback needs authentication"):
        page_rules(settings, "0.0.0.0", None)
    people = token_file(tmp_path, new_token("anna")[1])
    assert page_rules(settings, "0.0.0.0", people)[0].must_log_in is True
    assert page_rules(settings, "127.0.0.1", people)[0].must_log_in is False
    allowing = settings.model_copy(update={"http": settings.http.model_copy(update={"allow_unauthenticated": True})})
    assert page_rules(allowing, "0.0.0.0", people)[0].must_log_in is False
    (tmp_path / "http").write_text("reads\n")
    http = settings.http.model_copy(update={"token_file": str(tmp_path / "http")})
    rules, access = page_rules(settings.model_copy(update={"http": http}), "127.0.0.1", None)
    assert rules.must_log_in
    assert access.tokens is None  # the gate asks for it: a browser shows none when it opens a page
    assert replace(rules, must_log_in=False).judge(None).reads


def test_a_session_ends_by_itself(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules(hosts_of("127.0.0.1", ()))
    secret = rules.sessions.begin("word")
    assert rules.sessions.token_of(secret) == "word"
    monkeypatch.setattr("controller.ui.security.time.monotonic", lambda: 1e12)
    assert rules.sessions.token_of(secret) is None
