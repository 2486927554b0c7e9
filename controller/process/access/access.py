"""`HttpAccess`: what the endpoints of a process demand, and what its clients show. One value for both.

A token and mutual TLS may be combined: both are demanded then. TLS without a client authority encrypts, but tells
nothing about who asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.domain.errors import ConfigError
from controller.process.access.loopback import is_loopback
from controller.process.access.tls import TlsFiles
from controller.process.access.tokens import TokenFile


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """`open`: endpoints that need neither token nor certificate. `allow_unauthenticated`: listen anywhere."""

    tokens: TokenFile | None = None
    tls: TlsFiles = field(default_factory=TlsFiles)
    open: frozenset[str] = frozenset()
    allow_unauthenticated: bool = False

    @property
    def demands_certificate(self) -> bool:
        """Whether who asks must show a certificate."""
        return self.tls.serves and self.tls.client_authority is not None

    @property
    def authenticates(self) -> bool:
        """Whether who asks must prove anything."""
        return self.tokens is not None or self.demands_certificate

    @property
    def scheme(self) -> str:
        """Of the addresses that a server has."""
        return "https" if self.tls.serves else "http"


NO_ACCESS_RULES = HttpAccess()


def check_exposure(access: HttpAccess, host: str, named: str) -> None:
    """Raise ConfigError for a host beyond loopback without authentication. `named`: the setting and its value."""
    if access.authenticates or access.allow_unauthenticated or is_loopback(host):
        return
    raise ConfigError(
        f"{named}: HTTP beyond loopback needs authentication: set http.token_file, or http.tls_certificate, "
        "http.tls_key and http.client_authority; or http.allow_unauthenticated: true where the network itself keeps "
        "others out (docs/security.md)"
    )


def url_of(access: HttpAccess, host: str, port: int) -> str:
    """The address of a server; an IPv6 address is put into brackets."""
    return f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
