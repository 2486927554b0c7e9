"""TLS files to contexts: what a server shows and demands, what a client shows and checks. Errors name the files."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.domain.errors import ConfigError

NO_PASSPHRASE = "none"  # otherwise OpenSSL asks the terminal for one


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. `certificate` and `key` come together; a server needs both.

    `client_authority`: a server demands certificates that it signed. `server_authority`: a client checks servers
    against it; without it against `client_authority`, and without both against what the system trusts.
    """

    certificate: str | None = None
    key: str | None = None
    client_authority: str | None = None
    server_authority: str | None = None

    @property
    def serves(self) -> bool:
        """Whether a server with these files speaks TLS."""
        return self.certificate is not None and self.key is not None

    @property
    def configured(self) -> bool:
        """Whether anything about TLS is."""
        return self != TlsFiles()

    def server_context(self, certificate_optional: bool = False) -> ssl.SSLContext:
        """What a server with these files does. Raises ConfigError. `certificate_optional`: a client may come without
        one, and the application refuses it; one of another authority is refused either way."""
        assert self.certificate is not None
        assert self.key is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load_certificate(context, self.certificate, self.key)
        authority = self.client_authority
        if authority is not None:
            load_files(authority, lambda: context.load_verify_locations(authority))
            context.verify_mode = ssl.CERT_OPTIONAL if certificate_optional else ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """What a client with these files does. Raises ConfigError."""
        return client_context(self.server_authority or self.client_authority, self.certificate, self.key)


def client_context(authority: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """The context of a client; host names are always checked. `authority` None: what the system trusts. Raises
    ConfigError for a file that is of no use."""
    context = ssl.create_default_context()
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # this authority alone
        load_files(authority, lambda: context.load_verify_locations(authority))
    if certificate is not None and key is not None:
        load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Show this certificate from now on, also where the context is in use. Raises ConfigError."""
    load_files(
        f"{certificate} with {key}", lambda: context.load_cert_chain(certificate, key, password=lambda: NO_PASSPHRASE)
    )


def load_files(what: str, load: Callable[[], Any]) -> None:
    """Load files into a context. Raises ConfigError, which names them."""
    try:
        load()
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or "not a usable PEM file"
        raise ConfigError(f"TLS files {what}: {reason}; give PEM files, a key without passphrase") from None
