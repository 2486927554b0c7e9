"""Tokens and certificates of a local Pulsar cluster."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import ssl
import stat
from pathlib import Path

import pytest

from controller.domain.errors import ConfigError
from controller.testbed.certificates import CertificateFailed
from controller.testbed.pulsar.credentials import Credentials

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_token_names_its_role_and_is_signed_with_the_key(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    credentials.prepare("token", tls=False)
    header, claims, signature = credentials.token("viewer").read_text().split(".")
    assert json.loads(decoded(header)) == {"alg": "HS256"}
    assert json.loads(decoded(claims)) == {"sub": "viewer"}
    key = (tmp_path / "secret.key").read_bytes()
    assert decoded(signature) == hmac.new(key, f"{header}.{claims}".encode(), hashlib.sha256).digest()


def test_secrets_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "credentials")
    credentials.prepare("token", tls=False)
    files = {file.name: file.read_bytes() for file in credentials.folder.iterdir()}
    assert set(files) == {"secret.key", "admin.token", "broker.token"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in credentials.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(credentials.folder.stat().st_mode) == 0o700
    credentials.prepare("token", tls=False)
    assert {file.name: file.read_bytes() for file in credentials.folder.iterdir()} == files


def test_two_clusters_have_different_keys(tmp_path: Path) -> None:
    one, other = Credentials(tmp_path / "1"), Credentials(tmp_path / "2")
    for credentials in (one, other):
        credentials.prepare("token", tls=False)
    assert one.token("admin").read_text() != other.token("admin").read_text()


@pytest.mark.parametrize("role", ["", "../admin", "a/b", "a b", ".hidden", "x" * 65])
def test_a_role_that_is_no_file_name_is_refused(tmp_path: Path, role: str) -> None:
    with pytest.raises(ConfigError, match=r"role .*: needed are 1 to 64 letters"):
        Credentials(tmp_path).token(role)
    assert list(tmp_path.iterdir()) == []


@needs_openssl
def test_certificates_are_for_loopback_and_signed_by_the_authority(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "credentials")
    credentials.prepare("tls", tls=True)
    context = ssl.create_default_context(cafile=str(credentials.authority))
    context.load_cert_chain(*credentials.certificate("admin"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(credentials.folder / "server.cert.pem", credentials.folder / "server.key.pem")
    handshake(context, server, "127.0.0.1")
    assert {stat.S_IMODE(file.stat().st_mode) for file in credentials.folder.glob("*.key.pem")} == {0o600}
    assert not list(credentials.folder.glob("*.csr"))
    assert (credentials.folder / "server.key.pem").read_text().startswith("-----BEGIN PRIVATE KEY-----"), "PKCS 8"


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """A TLS handshake in memory; raises ssl.SSLError if one side refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        waiting = []
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(side)
        if not waiting:
            return
    raise AssertionError("the handshake does not end")


def test_without_openssl_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CertificateFailed, match=r"openssl, which is not on PATH: install it, or leave out --tls"):
        Credentials(tmp_path / "credentials").prepare("none", tls=True)
