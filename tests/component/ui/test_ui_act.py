"""Acting on the page: never without a name and a reason; the command that is sent carries both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from controller.config.settings import Settings
from controller.control.commands import _HANDLERS
from controller.domain.entries import Kind
from controller.domain.events import Command
from controller.operations.operator import NoAnswer, Outcome
from controller.process.access.named_tokens import NamedTokens, new_token
from controller.ui.actions import ACTIONS
from controller.ui.page import Page
from controller.ui.security import Rules, hosts_of
from controller.ui.server import make_page_app
from tests.component.ui.conftest import token_file
from tests.short_run import ShortRun

ADDRESS = "http://127.0.0.1:8180"
TOKEN, LINE = new_token("anna")


class Journal:
    """Stands where Kafka is: the control step itself carries out what the page sends, and journals it."""

    def __init__(self, run: ShortRun) -> None:
        self.run, self.sent = run, 0

    def send(
        self, settings: Settings, kind: str, why: str, timeout_s: float, args: Mapping[str, Any], who: str
    ) -> Outcome:
        self.sent += 1
        identity = f"page-{self.sent}"
        entries = self.run.batch(Command(identity, kind, dict(args), who, why))
        answer = next(e for e in entries if e.command_id == identity and e.kind.value.startswith("command_"))
        return Outcome(identity, answer.kind is Kind.COMMAND_ACCEPTED, answer.reason or "", answer.seq)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    run = ShortRun(tmp_path / "tables")
    for broker in ("b1:8080", "b2:8080"):
        run.join(broker)
    run.command("create_namespace", namespace="shop/orders", bundles=2)
    run.look_up(*(record.bundle for record in run.state.bundles.values()))
    return Journal(run)


@pytest.fixture
def page(journal: Journal, tmp_path: Path) -> Page:
    people = NamedTokens(token_file(tmp_path, LINE))
    return Page(journal.run.settings, Rules(hosts_of("127.0.0.1", ()), people), ask_kafka=False, send=journal.send)


@pytest.fixture
def client(page: Page) -> Iterator[TestClient]:
    with TestClient(make_page_app(page), base_url=ADDRESS) as client:
        yield client


def acting(client: TestClient, body: Any, token: str = TOKEN, **headers: str) -> Any:
    return client.post("/api/act", json=body, headers={"Authorization": f"Bearer {token}", **headers})


def test_a_command_is_journaled_with_name_and_reason(client: TestClient, journal: Journal, page: Page) -> None:
    answer = acting(client, {"kind": "mode", "args": {"mode": "paused"}, "why": " upgrade of\n rack 2 "}).json()
    assert (answer["accepted"], answer["who"]) == (True, "anna")
    entry = next(e for e in journal.run.entries if e.command_id == answer["command_id"])
    assert (entry.data["who"], entry.data["why"]) == ("anna", "upgrade of rack 2")
    assert journal.run.state.mode == "paused"
    page.cluster.poll()
    shown = client.get("/api/now").json()
    assert shown["mode"] == "paused"
    assert (shown["mode_set"]["who"], shown["mode_set"]["why"]) == ("anna", "upgrade of rack 2")


def test_the_page_shows_at_once_what_it_was_answered(client: TestClient, page: Page) -> None:
    """Who acts reads the page again: the old mode would make one act twice."""
    page.cluster.poll()
    for mode in ("paused", "live", "shadow"):
        assert acting(client, {"kind": "mode", "args": {"mode": mode}, "why": "to and fro"}).json()["accepted"]
        assert client.get("/api/now").json()["mode"] == mode


def test_each_action_reaches_the_journal(client: TestClient, journal: Journal) -> None:
    bundle = journal.run.owned_by("b1:8080")[0]
    deeds: list[tuple[str, dict[str, Any]]] = [
        ("mode", {"mode": "live"}),
        ("strategy", {"strategy": "steady"}),
        ("round_now", {}),
        ("override", {"override": "freeze", "bundle": bundle}),
        ("end_override", {"id": "page-4"}),
        ("drain", {"broker": "b2:8080"}),
        ("undrain", {"broker": "b2:8080"}),
        ("unload_bundle", {"bundle": bundle, "to": "b2:8080"}),
    ]
    assert {kind for kind, _ in deeds} == set(ACTIONS) - {"approve", "decline"}
    for kind, args in deeds:
        answer = acting(client, {"kind": kind, "args": args, "why": "a test of the page"})
        assert answer.json().get("accepted"), (kind, answer.text)
    accepted = [e for e in journal.run.entries if e.kind is Kind.COMMAND_ACCEPTED and e.data["who"] == "anna"]
    assert [e.data["kind"] for e in accepted] == [kind for kind, _ in deeds]
    assert set(ACTIONS) <= set(_HANDLERS)


@pytest.mark.parametrize("kind", ["approve", "decline"])
def test_there_must_be_a_plan_to_decide_about(kind: str, client: TestClient) -> None:
    answer = acting(client, {"kind": kind, "args": {"round": "r1"}, "why": "a test of the page"}).json()
    assert answer["accepted"] is False
    assert "no plan waits for approval" in answer["reason"]


def test_a_rejection_is_told(client: TestClient) -> None:
    answer = acting(client, {"kind": "drain", "args": {"broker": "nobody:1"}, "why": "test"}).json()
    assert answer["accepted"] is False
    assert "nobody:1 is not registered" in answer["reason"]


@pytest.mark.parametrize("token", ["", "guess", LINE.partition(": ")[2]], ids=["none", "a guess", "the hash"])
def test_nobody_acts_without_a_name(client: TestClient, journal: Journal, token: str) -> None:
    answer = acting(client, {"kind": "mode", "args": {"mode": "live"}, "why": "because"}, token)
    assert (answer.status_code, answer.json()["error"]) == (403, "unknown_token" if token else "no_name")
    bare = client.post("/api/act", json={"kind": "mode"}, headers={"Origin": ADDRESS})
    assert (bare.status_code, bare.json()["error"]) == (403, "no_name")
    assert journal.sent == 0


def test_a_name_comes_from_the_token_alone(client: TestClient, journal: Journal) -> None:
    body = {"kind": "mode", "args": {"mode": "live"}, "why": "because", "who": "root"}
    assert acting(client, body).json()["who"] == "anna"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"kind": "mode", "args": {"mode": "live"}}, "why"),
        ({"kind": "mode", "args": {"mode": "live"}, "why": "  "}, "why"),
        ({"kind": "mode", "args": {"mode": "live"}, "why": "x" * 501}, "why"),
        ({"kind": "thaw", "args": {}, "why": "because"}, "kind"),
        ({"kind": ["mode"], "why": "because"}, "kind"),
        ({"kind": "mode", "args": {}, "why": "because"}, "args"),
        ({"kind": "mode", "args": {"mode": "live", "who": "root"}, "why": "because"}, "args"),
        ({"kind": "drain", "args": {"broker": {"$": 1}}, "why": "because"}, "args"),
        ({"kind": "override", "args": {"override": "pin", "until_ms": True}, "why": "because"}, "args"),
        ({"kind": "drain", "args": ["b1"], "why": "because"}, "args"),
        ([], "body"),
    ],
)
def test_what_is_no_action_is_refused(client: TestClient, journal: Journal, body: Any, error: str) -> None:
    answer = acting(client, body)
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert journal.sent == 0


def test_another_site_cannot_use_a_session(client: TestClient, journal: Journal) -> None:
    client.post("/api/session", json={"token": TOKEN}, headers={"Origin": ADDRESS})  # the client keeps the cookie
    body = {"kind": "mode", "args": {"mode": "live"}, "why": "because"}
    for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert client.post("/api/act", json=body, headers=origin).status_code == 403
    form = client.post("/api/act", content=b"{}", headers={"Origin": ADDRESS, "Content-Type": "text/plain"})
    assert form.status_code == 400
    large = client.post("/api/act", content=b" " * 20_000, headers={"Origin": ADDRESS})
    assert large.status_code == 400
    assert journal.sent == 0
    assert client.post("/api/act", json=body, headers={"Origin": ADDRESS}).json()["who"] == "anna"


def test_no_answer_of_a_controller_is_told(client: TestClient, page: Page) -> None:
    def silent(*given: Any) -> Outcome:
        raise NoAnswer("command c1 has no answer after 20 s")

    page.send = silent
    answer = acting(client, {"kind": "round_now", "why": "because"})
    assert answer.status_code == 503
    assert "no answer" in answer.json()["text"]


def test_names_and_reasons_stay_text(client: TestClient, page: Page) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    acting(client, {"kind": "mode", "args": {"mode": "paused"}, "why": evil})
    page.cluster.poll()
    for path in ("/api/now", f"/api/search?q={evil}"):
        answer = client.get(path)
        assert answer.headers["content-type"] == "application/json", path
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/now").json()["mode_set"]["why"] == evil
    html = client.get(f"/broker/{evil}")
    assert evil not in html.text
    refused = acting(client, {"kind": evil, "why": "because"})
    assert refused.headers["content-type"] == "application/json"
