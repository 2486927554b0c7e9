"""Tokens and certificates of a cluster with authentication: made once, files that only their owner can read.

Roles are names: `admin` (a super-user, for people and for Ballast) and `broker` (for the brokers themselves) exist from
the start; any other role gets its token or certificate when asked for, and its rights from the admin API.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from pathlib import Path

from controller.domain.errors import ConfigError
from controller.testbed.certificates import Authority
from controller.testbed.secret_files import private_folder, write_secret

ADMIN, BROKER = "admin", "broker"
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Credentials:
    """The folder `credentials` of a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._issuer = Authority(folder, "--tls")
        self.authority = self._issuer.certificate
        self._secret = folder / "secret.key"

    def prepare(self, auth: str, tls: bool) -> None:
        """Make what brokers need to start, unless it exists."""
        if auth == "none" and not tls:
            return
        private_folder(self.folder)
        if tls:
            self._issuer.make()
            self._issuer.issue("server")
        for role in (BROKER, ADMIN):
            if auth == "token":
                self.token(role)
            elif auth == "tls":
                self.certificate(role)

    def token(self, role: str) -> Path:
        """The file with the role's token, made if it does not exist. Tokens do not expire."""
        file = self.folder / f"{_checked(role)}.token"
        if not file.exists():
            write_secret(file, _sign({"sub": role}, self._secret_key()).encode())
        return file

    def certificate(self, role: str) -> tuple[Path, Path]:
        """The files of the role's certificate and key, made if they do not exist. Its common name is the role."""
        return self._issuer.issue(_checked(role))

    def _secret_key(self) -> bytes:
        if not self._secret.exists():
            write_secret(self._secret, secrets.token_bytes(32))
        return self._secret.read_bytes()


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
