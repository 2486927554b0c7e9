"""Tokens and certificates of a cluster with authentication: made once, files that only their owner can read.

Roles are names: `admin` (a super-user, for people and for Ballast) and `broker` (for the brokers themselves) exist from
the start; any other role gets its token or certificate when asked for, and its rights from the admin API.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

from controller.domain.errors import ConfigError
from controller.testbed.pulsar.spec import PulsarFailed

ADMIN, BROKER = "admin", "broker"
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VALID_DAYS = "3650"


class Credentials:
    """The folder `credentials` of a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.cert.pem"
        self._secret = folder / "secret.key"

    def prepare(self, auth: str, tls: bool) -> None:
        """Make what brokers need to start, unless it exists."""
        if auth == "none" and not tls:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        if tls:
            self._make_authority()
            self._make_certificate("server")
        for role in (BROKER, ADMIN):
            if auth == "token":
                self.token(role)
            elif auth == "tls":
                self.certificate(role)

    def token(self, role: str) -> Path:
        """The file with the role's token, made if it does not exist. Tokens do not expire."""
        file = self.folder / f"{_checked(role)}.token"
        if not file.exists():
            _write_secret(file, _sign({"sub": role}, self._secret_key()).encode())
        return file

    def certificate(self, role: str) -> tuple[Path, Path]:
        """The files of the role's certificate and key, made if they do not exist."""
        return self._make_certificate(_checked(role))

    def _secret_key(self) -> bytes:
        if not self._secret.exists():
            _write_secret(self._secret, secrets.token_bytes(32))
        return self._secret.read_bytes()

    def _make_authority(self) -> None:
        key = self.folder / "ca.key.pem"
        if not (self.authority.exists() and key.exists()):
            self._openssl(
                *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", _VALID_DAYS),
                *("-subj", "/CN=ballast-test-authority", "-keyout", str(key), "-out", str(self.authority)),
            )

    def _make_certificate(self, name: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 whose common name is `name`: the role of who presents it."""
        certificate, key = self.folder / f"{name}.cert.pem", self.folder / f"{name}.key.pem"
        if certificate.exists() and key.exists():
            return certificate, key
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self._openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-sha256", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        self._openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.authority), "-sha256", "-days", _VALID_DAYS),
            *("-CAkey", str(self.folder / "ca.key.pem"), "-CAcreateserial", "-extfile", str(extensions)),
            *("-out", str(certificate)),
        )
        request.unlink()
        extensions.unlink()
        return certificate, key

    def _openssl(self, *words: str) -> None:
        binary = shutil.which("openssl")
        if binary is None:
            raise PulsarFailed(
                "certificates are made with openssl, which is not on PATH: install it, or leave out --tls"
            )
        # The umask of the child alone: keys are readable by their owner from the first byte.
        done = subprocess.run([binary, *words], capture_output=True, text=True, timeout=120, check=False, umask=0o077)
        if done.returncode != 0:
            raise PulsarFailed(f"openssl {words[0]} failed: {done.stderr.strip()[-400:]}")


def _checked(role: str) -> str:
    if not _ROLE.fullmatch(role):
        raise ConfigError(f"role {role!r}: needed are 1 to 64 letters, digits, dots, underscores or hyphens")
    return role


def _sign(claims: dict[str, str], key: bytes) -> str:
    """A JSON Web Token with HS256 (RFC 7515)."""
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "HS256"}, claims)]
    signed = b".".join(map(_base64url, parts))
    return (signed + b"." + _base64url(hmac.new(key, signed, hashlib.sha256).digest())).decode()


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _write_secret(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read, complete or not at all."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    temporary.rename(file)
