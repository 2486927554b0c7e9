"""Credentials: a token that is rotated, OAuth2, TLS; and no secret in anything that is said."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.auth import (
    CredentialsMissing,
    NoCredentials,
    OAuth2,
    TokenFile,
    credentials_of,
    tls_of,
)
from controller.brokers.pulsar.changes import PulsarChanges, Sent
from controller.brokers.pulsar.outcomes import Answer, Outcome
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.domain.errors import ConfigError
from controller.process.http import HttpServer
from tests.unit.brokers.pulsar.stand_in import stand_in

PATH, SECRET = "/admin/v2/clusters", "s3cr3t-5f1c"


def test_a_rotated_token_is_used_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def run() -> list[Outcome]:
        async with stand_in(1) as cluster, PulsarAdmin(cluster.settings(token_file=str(file))) as admin:
            cluster.token = "new"
            found = [(await admin.get(PATH)).outcome]
            file.write_text("newer-and-longer")
            cluster.token = "newer-and-longer"
            found.append((await admin.get(PATH)).outcome)
            file.unlink()
            found.append((await admin.get(PATH)).outcome)
            return found

    assert asyncio.run(run()) == [Outcome.UNAUTHENTICATED, Outcome.OK, Outcome.NO_CREDENTIALS]


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"two words", b"\xff\xfe", f"{SECRET}\n{SECRET}".encode(), b"x" * 70_000]
)
def test_a_file_without_a_usable_token_is_named_and_not_quoted(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "tok"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="tok") as error:
        TokenFile(file)
    assert SECRET not in str(error.value)


class Issuer:
    """An OAuth2 issuer. `life_s`: of its tokens; `document`: what discovery answers instead."""

    def __init__(self) -> None:
        self.server = HttpServer("127.0.0.1")
        self.forms: list[str] = []
        self.life_s: Any = 3_600
        self.document: Any = None
        self.answer: Any = None

    async def discover(self, request: Request) -> Response:
        return JSONResponse(self.document or {"token_endpoint": f"{self.server.url}/token"})

    async def token(self, request: Request) -> Response:
        self.forms.append((await request.body()).decode())
        if self.answer is not None:
            return Response(self.answer[1], self.answer[0])
        return JSONResponse({"access_token": f"token-{len(self.forms)}", "expires_in": self.life_s})

    def start(self) -> None:
        routes = [
            Route("/.well-known/openid-configuration", self.discover),
            Route("/token", self.token, methods=["POST"]),
        ]
        self.server.start(Starlette(routes=routes))


def key_file(folder: Path, url: str) -> str:
    path = folder / "key.json"
    path.write_text(json.dumps({"client_id": "ballast", "client_secret": SECRET, "issuer_url": url}))
    return str(path)


def test_oauth2_tokens_are_kept_until_they_expire_or_are_refused(tmp_path: Path) -> None:
    async def run() -> tuple[list[str], list[str], str]:
        issuer = Issuer()
        issuer.start()
        settings = PulsarCluster(oauth2_key_file=key_file(tmp_path, issuer.server.url), oauth2_audience="urn:pulsar")
        credentials = credentials_of(settings)
        both = await asyncio.gather(credentials.headers(), credentials.headers())
        seen = [headers["Authorization"] for headers in both]
        credentials.forget()
        issuer.life_s = 0.001  # expired at once
        seen += [(await credentials.headers())["Authorization"]]
        await asyncio.sleep(0.01)
        seen += [(await credentials.headers())["Authorization"]]
        await issuer.server.stop()
        return seen, issuer.forms, f"{credentials!r} {vars(settings)}"

    seen, forms, said = asyncio.run(run())
    assert seen == ["Bearer token-1", "Bearer token-1", "Bearer token-2", "Bearer token-3"]
    assert "grant_type=client_credentials" in forms[0]
    assert "audience=urn%3Apulsar" in forms[0]
    assert SECRET not in said


@pytest.mark.parametrize("in_key_file", [True, False])
def test_a_rotated_oauth2_secret_is_sent_with_the_next_fetch(
    in_key_file: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> list[str]:
        issuer = Issuer()
        issuer.start()
        file, url = tmp_path / "secret", issuer.server.url
        file.write_text(SECRET)
        named = {"oauth2_issuer_url": url, "oauth2_client_id": "ballast", "oauth2_secret_file": str(file)}
        if in_key_file:
            file, named = tmp_path / "key.json", {"oauth2_key_file": key_file(tmp_path, url)}
        credentials = credentials_of(PulsarCluster(**named))
        old = file.read_text()
        for content in (old, "", "", old.replace(SECRET, f"new-{SECRET}")):  # half written at first
            file.write_text(content)
            credentials.forget()
            await credentials.headers()
        await issuer.server.stop()
        return [form.partition("client_secret=")[2] for form in issuer.forms]

    assert asyncio.run(run()) == [SECRET, SECRET, SECRET, f"new-{SECRET}"]
    assert caplog.text.count("cannot be renewed") == 1
    assert SECRET not in caplog.text


def test_an_issuer_that_does_not_help_is_a_named_outcome_without_a_secret(tmp_path: Path) -> None:
    cases: list[tuple[Any, Any]] = [
        (None, (401, SECRET)), (None, (200, "[]")), (None, (200, "{")), (None, (200, '{"access_token": 7}')),
        (None, (200, '{"access_token": "a\\nb"}')), ({"x": 1}, None), ({"token_endpoint": "file:///etc/passwd"}, None),
        ({"token_endpoint": "http://[::1/token"}, None), ({"token_endpoint": "http://issuer:abc/token"}, None),
        ({"token_endpoint": "https://a/\ud800"}, None), ({"token_endpoint": "https://xn--/x"}, None),
    ]  # fmt: skip

    async def run() -> list[str]:
        issuer, said = Issuer(), []
        issuer.start()
        async with stand_in(1) as cluster:
            for document, answer in cases:
                issuer.document, issuer.answer = document, answer
                settings = cluster.settings(oauth2_key_file=key_file(tmp_path, issuer.server.url))
                async with PulsarAdmin(settings) as admin:
                    found = await admin.get(PATH)
                assert found.outcome is Outcome.NO_CREDENTIALS, (document, answer)
                said.append(str(found.failure()))
            assert cluster.brokers[0].asked == []
        await issuer.server.stop()
        return said

    said = asyncio.run(run())
    assert len(said) == len(cases)
    assert SECRET not in "".join(said)


@pytest.mark.parametrize("url", ["https://issuer:abc", "https://[::1", f"https://me:{SECRET}@issuer:abc"])
def test_an_issuer_s_url_that_is_no_address_is_named_and_ends_no_call(url: str, tmp_path: Path) -> None:
    async def run() -> Answer:
        settings = PulsarCluster(service_urls=("http://127.0.0.1:1",), oauth2_key_file=key_file(tmp_path, url))
        async with PulsarAdmin(settings) as admin:
            return await admin.get(PATH)

    found = asyncio.run(run())
    assert found.outcome is Outcome.NO_CREDENTIALS
    assert f"{url.rpartition('@')[2]}/.well-known" in found.detail
    assert SECRET not in found.detail
    assert "oauth2_issuer_url" in found.detail


def test_an_https_issuer_cannot_send_the_secret_over_http(tmp_path: Path) -> None:
    oauth2 = OAuth2(PulsarCluster(oauth2_key_file=key_file(tmp_path, "https://x")))

    class Http:
        async def request(self, method: str, url: str, **_: Any) -> Any:
            return httpx.Response(200, json={"token_endpoint": "http://x/token"})

    with pytest.raises(CredentialsMissing, match="safe"):
        asyncio.run(oauth2._discover(Http(), "https://x"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"token_file": "/x", "oauth2_client_id": "c"}, "keep one"),
        ({"oauth2_client_id": "c"}, "oauth2_issuer_url and pulsar_cluster.oauth2_secret_file"),
        ({"oauth2_key_file": "/no/such"}, "/no/such"),
        ({"token_file": "/no/such"}, "/no/such"),
    ],
)
def test_contradicting_or_missing_settings_say_so(values: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        credentials_of(PulsarCluster(**values))


def test_without_settings_there_are_no_credentials() -> None:
    assert isinstance(credentials_of(PulsarCluster()), NoCredentials)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_pki(tmp_path_factory.mktemp("pki"))


def new_pki(folder: Path) -> Path:
    """A certificate authority, and a certificate of 127.0.0.1 that both ends use."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    openssl("req", *curve[:-2], "-keyout", "key.pem", "-out", "csr.pem", "-subj", "/CN=broker")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", "cert.pem")  # fmt: skip
    return folder


@asynccontextmanager
async def mutual_tls(pki: Path, port: int = 0) -> AsyncIterator[int]:
    """A broker that answers once a connection, to whoever shows a certificate of the authority; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "cert.pem", pki / "key.pem")
    context.load_verify_locations(pki / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def tls_files(folder: Path) -> dict[str, str]:
    return {f"tls_{name}_file": str(folder / f"{name}.pem") for name in ("ca", "cert", "key")}


def test_tls_checks_the_broker_and_shows_our_certificate(pki: Path) -> None:
    async def run() -> dict[str, Outcome]:
        whole = tls_files(pki)
        cases = {"both": whole, "no certificate": {"tls_ca_file": whole["tls_ca_file"]}, "no authority": {}}
        found = {}
        async with mutual_tls(pki) as port:
            for name, values in cases.items():
                async with PulsarAdmin(PulsarCluster(service_urls=(f"https://127.0.0.1:{port}",), **values)) as admin:
                    found[name] = (await admin.get(PATH)).outcome
        return found

    found = asyncio.run(run())
    assert (found["both"], found["no authority"]) == (Outcome.OK, Outcome.TLS)
    assert found["no certificate"] in (Outcome.TLS, Outcome.UNREACHABLE), "the broker may just close the connection"


@contextmanager
def refusing_late(pki: Path) -> Iterator[int]:
    """A broker that refuses whoever has no certificate as Pulsar's does in TLS 1.3: the client's handshake is over, and
    an alert answers its request. Its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "cert.pem", pki / "key.pem")
    context.load_verify_locations(pki / "ca.pem")
    context.verify_mode, context.minimum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed: the test is over
            with connection:
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                handshake = context.wrap_bio(incoming, outgoing, server_side=True)
                while heard := connection.recv(65_536):
                    incoming.write(heard)
                    with suppress(ssl.SSLError):
                        handshake.do_handshake()
                    connection.sendall(outgoing.read())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_a_refusal_after_the_handshake_is_an_outcome_and_no_error(pki: Path) -> None:
    async def run(port: int) -> tuple[Answer, Sent]:
        url, authority = f"https://127.0.0.1:{port}", str(pki / "ca.pem")
        async with PulsarAdmin(PulsarCluster(service_urls=(url,), tls_ca_file=authority)) as admin:
            return await admin.get(PATH), await PulsarChanges(admin).send("PUT", PATH, url, timeout_s=5.0)

    with refusing_late(pki) as port:
        answer, sent = asyncio.run(run(port))
    assert (answer.outcome, answer.status) == (Outcome.TLS, 0)
    assert "certificate required" in answer.detail.lower().replace("_", " ")
    assert (sent.status, sent.unanswered) == (0, True)


def test_a_renewed_certificate_and_authority_are_used_without_a_restart(
    pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("controller.process.access.renewal.keep_renewed.__defaults__", (0.01,))
    (tmp_path / "new").mkdir()
    renewed, ours = new_pki(tmp_path / "new"), tmp_path

    def install(source: Path, *names: str) -> None:
        for name in names:
            (ours / f"{name}.pem").write_bytes((source / f"{name}.pem").read_bytes())

    async def run() -> list[tuple[Outcome, bool]]:
        install(pki, "ca", "cert", "key")
        found = []
        async with mutual_tls(pki) as port:
            urls = (f"https://127.0.0.1:{port}",)
            admin = PulsarAdmin(PulsarCluster(service_urls=urls, **tls_files(ours)))
            at_first = admin.tls
            await admin.__aenter__()
            found.append(((await admin.get(PATH)).outcome, admin.tls is at_first))
            install(renewed, "ca", "cert")  # the key does not fit the certificate yet
            await asyncio.sleep(0.05)
            found.append(((await admin.get(PATH)).outcome, admin.tls is at_first))
        async with mutual_tls(renewed, port):
            install(renewed, "key")
            await asyncio.sleep(0.05)
            found.append(((await admin.get(PATH)).outcome, admin.tls is at_first))
        await admin.__aexit__()
        return found

    assert asyncio.run(run()) == [(Outcome.OK, True), (Outcome.OK, True), (Outcome.OK, False)]
    assert caplog.text.count("cannot be renewed") == 1


def test_tls_files_that_are_no_use_are_named(pki: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    for values in (
        {"tls_ca_file": str(bad)},
        {"tls_ca_file": "/no/such.pem"},
        {"tls_cert_file": str(pki / "cert.pem")},
        {"tls_cert_file": str(pki / "cert.pem"), "tls_key_file": str(bad)},
    ):
        with pytest.raises(ConfigError, match="TLS"):
            tls_of(PulsarCluster(**values))
