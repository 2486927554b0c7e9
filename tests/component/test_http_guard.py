"""Endpoints that demand a token or a certificate, with real servers and certificates."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

import httpx
import pytest

from controller.domain.errors import ConfigError, PortTaken
from controller.domain.state import ClusterState
from controller.process.access.access import HttpAccess
from controller.process.access.client import TokenAuth, new_client
from controller.process.access.plain_client import get
from controller.process.access.tls import TlsFiles
from controller.process.access.tokens import TokenFile
from controller.process.http import HttpServer
from controller.process.metrics import new_registry
from controller.service.health import HealthServer
from controller.testbed.pulsar.credentials import Credentials
from tests.component.lookup_agent import lookup_agent

SECRET = "s3cr3t-5f1c"
OPENABLE = ("/healthz", "/metrics")
LOOKUPS = ("/lookup?topic=t/n/x", "/brokers", "/", "/no/such", "/healthz/", "//healthz")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "http.tok"
    file.write_text(SECRET)
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """An authority with the certificates `server` and `admin`."""
    credentials = Credentials(tmp_path_factory.mktemp("ours"))
    credentials.prepare("tls", tls=True)
    return credentials


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """Another authority with certificates of the same names."""
    credentials = Credentials(tmp_path_factory.mktemp("theirs"))
    credentials.prepare("tls", tls=True)
    return credentials


def files(credentials: Credentials, role: str, **more: str) -> TlsFiles:
    certificate, key = credentials.certificate(role)
    return TlsFiles(str(certificate), str(key), **more)


def mutual(credentials: Credentials, role: str = "server") -> TlsFiles:
    return files(credentials, role, client_authority=str(credentials.authority))


def bearer(word: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {word}"}


@pytest.fixture
def plain() -> Iterator[httpx.Client]:
    """A client that shows nothing by itself."""
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


def test_everything_but_what_is_open_needs_the_token(
    token: Path, plain: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for opened in ([], ["health"], ["metrics"], ["health", "metrics"]):
        with lookup_agent(ClusterState, HttpAccess(TokenFile(token), open=frozenset(opened))) as url:
            free = [path for path, name in zip(OPENABLE, ("health", "metrics"), strict=True) if name in opened]
            assert [plain.get(url + path).status_code for path in free] == [200] * len(free)
            for path in {*LOOKUPS, *OPENABLE} - set(free):
                refused = plain.get(url + path)
                assert (refused.status_code, refused.json()["error"]) == (401, "no_token"), path
                assert plain.get(url + path, headers=bearer(SECRET)).status_code != 401, path
    assert SECRET not in caplog.text


def test_answers_say_what_is_missing_without_the_secret(token: Path, plain: httpx.Client) -> None:
    with lookup_agent(ClusterState, HttpAccess(TokenFile(token))) as url:
        for shown, said in (
            ({}, "a token is missing: send it as `Authorization: Bearer TOKEN`"),
            ({"Authorization": f"Basic {SECRET}"}, "a token is missing"),
            ({"Authorization": "Bearer"}, "is not one of those that are accepted here"),
            (bearer("wrong"), "is not one of those that are accepted here"),
            (bearer(SECRET[:-1]), "is not one of those"),
            (bearer(SECRET + "x"), "is not one of those"),
            ({"Authorization": b"Bearer \xff\xfe"}, "is not one of those"),
        ):
            answer = plain.get(f"{url}/lookup", headers=shown)  # type: ignore[arg-type]
            assert answer.status_code == 401
            assert said in answer.json()["text"]
            assert "http.token_file" in answer.json()["text"]
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert SECRET not in answer.text
        assert plain.get(f"{url}/healthz", headers={"authorization": f"bearer  {SECRET}"}).status_code == 200


def test_refused_requests_are_counted_by_what_they_lack(token: Path, plain: httpx.Client) -> None:
    with lookup_agent(ClusterState, HttpAccess(TokenFile(token), open=frozenset({"metrics"}))) as url:
        for headers in ({}, {}, bearer("wrong"), bearer(SECRET)):
            plain.get(f"{url}/brokers", headers=headers)
        shown = plain.get(f"{url}/metrics").text
    assert 'ballast_http_refused_total{error="no_token"} 2.0' in shown
    assert 'ballast_http_refused_total{error="unknown_token"} 1.0' in shown


def test_a_token_is_replaced_while_server_and_client_run(token: Path, plain: httpx.Client) -> None:
    access = HttpAccess(TokenFile(token))
    with lookup_agent(ClusterState, access) as url, new_client(HttpAccess(TokenFile(token)), 30) as ours:
        for content, accepted, refused in (
            (f"{SECRET}\n", [SECRET], ["next"]),
            (f"{SECRET}\nnext\n", [SECRET, "next"], []),
            (f"next\n{SECRET}\n", [SECRET, "next"], []),
            ("next\n", ["next"], [SECRET]),
            ("", ["next"], [SECRET]),  # of no use: what it held before counts
            ("later\n", ["later"], ["next"]),
        ):
            token.write_text(content)
            answers = {
                word: plain.get(f"{url}/healthz", headers=bearer(word)).status_code for word in accepted + refused
            }
            assert answers == dict.fromkeys(accepted, 200) | dict.fromkeys(refused, 401), content
            assert ours.get(f"{url}/healthz").status_code == 200


def handshake_refused(ask: Callable[[], httpx.Response]) -> bool:
    """With TLS 1.3 the client hears of it with its first read, or finds the connection closed."""
    try:
        ask()
    except httpx.TransportError:
        return True
    return False


def test_mutual_tls(ours: Credentials, theirs: Credentials, plain: httpx.Client) -> None:
    authority = str(ours.authority)
    stranger = files(theirs, "admin", server_authority=authority)
    with lookup_agent(ClusterState, HttpAccess(tls=mutual(ours))) as url:
        assert url.startswith("https://127.0.0.1:")
        with new_client(HttpAccess(tls=mutual(ours, "admin")), 30) as client:
            assert [client.get(url + path).status_code for path in OPENABLE] == [200, 200]
        for tls in (TlsFiles(server_authority=authority), stranger):
            with new_client(HttpAccess(tls=tls), 30) as client:
                assert handshake_refused(lambda: client.get(f"{url}/healthz")), tls
        assert handshake_refused(lambda: plain.get(url.replace("https", "http")))
        assert handshake_refused(lambda: plain.get(url)), "the system does not trust this server"


def test_open_endpoints_need_no_certificate_but_a_wrong_one_is_refused(ours: Credentials, theirs: Credentials) -> None:
    authority = str(ours.authority)
    access = HttpAccess(tls=mutual(ours), open=frozenset({"health"}))
    with lookup_agent(ClusterState, access) as url:
        with new_client(HttpAccess(tls=TlsFiles(server_authority=authority)), 30) as client:
            assert client.get(f"{url}/healthz").status_code == 200
            for path in (*LOOKUPS, "/metrics"):
                refused = client.get(url + path)
                assert (refused.status_code, refused.json()["error"]) == (403, "no_certificate"), path
                assert "http.tls_certificate" in refused.json()["text"]
        with new_client(HttpAccess(tls=mutual(ours, "admin")), 30) as client:
            assert client.get(f"{url}/metrics").status_code == 200
        with new_client(HttpAccess(tls=files(theirs, "admin", server_authority=authority)), 30) as client:
            assert handshake_refused(lambda: client.get(f"{url}/healthz"))


def test_token_and_tls_are_both_demanded(ours: Credentials, token: Path) -> None:
    tls = TlsFiles(server_authority=str(ours.authority))
    with lookup_agent(ClusterState, HttpAccess(TokenFile(token), files(ours, "server"))) as url:
        for access, status in ((HttpAccess(tls=tls), 401), (HttpAccess(TokenFile(token), tls), 200)):
            with new_client(access, 30) as client:
                assert client.get(f"{url}/metrics").status_code == status
    with lookup_agent(ClusterState, HttpAccess(TokenFile(token), mutual(ours))) as url:
        for access, status in (
            (HttpAccess(tls=mutual(ours, "admin")), 401),
            (HttpAccess(TokenFile(token), mutual(ours, "admin")), 200),
        ):
            with new_client(access, 30) as client:
                assert client.get(f"{url}/metrics").status_code == status


def test_the_plain_client_proves_itself_in_the_same_ways(ours: Credentials, theirs: Credentials, token: Path) -> None:
    """Of the commands that ask a page: certificate and token, and only a server that its authority vouches for."""
    with lookup_agent(ClusterState, HttpAccess(TokenFile(token), mutual(ours))) as url:

        def ask(access: HttpAccess) -> tuple[int, bytes]:
            return get(access, "127.0.0.1", httpx.URL(url).port or 0, "/metrics", 30, 1_000_000)

        status, body = ask(HttpAccess(TokenFile(token), mutual(ours, "admin")))
        assert (status, b"ballast_agent_sessions_total" in body) == (200, True)
        assert ask(HttpAccess(tls=mutual(ours, "admin")))[0] == 401
        nobody = TlsFiles(server_authority=str(ours.authority))
        stranger = files(theirs, "admin", server_authority=str(ours.authority))
        for tls in (nobody, stranger):
            with pytest.raises((OSError, HTTPException)):
                ask(HttpAccess(TokenFile(token), tls))
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(HttpAccess(TokenFile(token), files(ours, "admin", server_authority=str(theirs.authority))))


def test_a_client_with_tls_shows_its_token_to_nobody_who_speaks_plain_http(ours: Credentials, token: Path) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200)

    for tls in (TlsFiles(), TlsFiles(server_authority=str(ours.authority))):
        auth = TokenAuth(HttpAccess(TokenFile(token), tls))
        with httpx.Client(auth=auth, transport=httpx.MockTransport(answer), trust_env=False) as client:
            client.get("http://b1:1/lookup")
            client.get("https://b1:1/lookup")
    shown = f"Bearer {SECRET}"
    assert seen == [shown, shown, None, shown]


def test_a_renewed_certificate_is_shown_without_a_restart(
    ours: Credentials, theirs: Credentials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("controller.process.access.renewal.keep_renewed.__defaults__", (0.02,))
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"

    def install(credentials: Credentials, *parts: int) -> None:
        for part in parts:
            (certificate, key)[part].write_bytes(credentials.certificate("server")[part].read_bytes())
        key.chmod(0o600)

    def trusted_by(credentials: Credentials) -> bool:
        context = ssl.create_default_context(cafile=str(credentials.authority))
        return not handshake_refused(lambda: httpx.get(f"{url}/healthz", verify=context, trust_env=False))

    install(ours, 0, 1)
    with lookup_agent(ClusterState, HttpAccess(tls=TlsFiles(str(certificate), str(key)))) as url:
        assert (trusted_by(ours), trusted_by(theirs)) == (True, False)
        time.sleep(0.1)
        install(theirs, 0)  # the key does not fit it yet
        deadline_s = time.monotonic() + 30
        while "cannot be renewed" not in caplog.text and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert (trusted_by(ours), trusted_by(theirs)) == (True, False)
        install(theirs, 1)
        while not trusted_by(theirs) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert (trusted_by(ours), trusted_by(theirs)) == (False, True)
    assert caplog.text.count("cannot be renewed") == 1


def test_the_jobs_endpoints_are_guarded_alike(token: Path, plain: httpx.Client) -> None:
    access = HttpAccess(TokenFile(token), open=frozenset({"health"}))
    server = HealthServer("127.0.0.1", 0, new_registry(process=False), lambda: ["late"], access)
    server.start()
    try:
        assert plain.get(f"{server.url}/healthz").status_code == 503
        assert plain.get(f"{server.url}/metrics").status_code == 401
        shown = plain.get(f"{server.url}/metrics", headers=bearer(SECRET))
        assert shown.status_code == 200
        assert 'ballast_http_refused_total{error="no_token"} 1.0' in shown.text
    finally:
        server.stop()


def test_the_job_waits_for_the_port_of_the_controller_that_it_replaces(plain: httpx.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as older:
        port = older.getsockname()[1]
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}"):
            HealthServer("127.0.0.1", port, new_registry(process=False), list)
        server = HealthServer("127.0.0.1", port, new_registry(process=False), list, wait=True)
        server.start()
        server.listen()
        assert server.url == ""
    server.listen()
    try:
        assert plain.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    finally:
        server.stop()


def test_a_job_that_waits_for_its_port_goes_on_when_its_key_is_gone(
    tmp_path: Path, ours: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = (tmp_path / name for name in ("certificate.pem", "key.pem"))
    for file, theirs in zip((certificate, key), ours.certificate("server"), strict=True):
        file.write_bytes(theirs.read_bytes())
        file.chmod(0o600)
    access = HttpAccess(tls=TlsFiles(str(certificate), str(key)))
    with socket.create_server(("127.0.0.1", 0)) as older:
        port = older.getsockname()[1]
        server = HealthServer("127.0.0.1", port, new_registry(process=False), list, access, wait=True)
    key.unlink()
    for _ in range(3):
        server.listen()
    server.stop()
    assert server.url == ""
    assert caplog.text.count("no health and metrics until the next start") == 1


def test_files_that_others_can_read_get_one_line_each(
    ours: Credentials, token: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(ours.certificate("server")[1].read_bytes())
    key.chmod(0o644)
    token.chmod(0o644)
    tls = TlsFiles(str(ours.certificate("server")[0]), str(key))
    with lookup_agent(ClusterState, HttpAccess(TokenFile(token), tls)):
        pass
    said = [record.getMessage() for record in caplog.records if "can be read by others" in record.getMessage()]
    assert len(said) == 2
    assert str(token) in said[0]
    assert str(key) in said[1]


def test_tls_files_of_no_use_stop_the_server(ours: Credentials, theirs: Credentials, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    certificate, key = map(str, ours.certificate("server"))
    locked = tmp_path / "locked.pem"  # with a passphrase, which nobody is asked for
    words = ["openssl", "rsa", "-aes256", "-passout", "pass:p4ss", "-in", key, "-out", str(locked)]
    subprocess.run(words, check=True, capture_output=True)
    for tls, named in (
        (TlsFiles(certificate, str(locked)), str(locked)),
        (TlsFiles(str(bad), key), str(bad)),
        (TlsFiles(certificate, str(theirs.certificate("server")[1])), str(theirs.certificate("server")[1])),
        (TlsFiles(certificate, key, client_authority=str(bad)), str(bad)),
        (TlsFiles(certificate, "/no/such.pem"), "/no/such.pem"),
    ):
        with pytest.raises(ConfigError, match="TLS files") as told:
            HttpServer("127.0.0.1", access=HttpAccess(tls=tls))
        assert named in str(told.value)
