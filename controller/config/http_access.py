"""From the section `http` to what endpoints demand and clients show, and the check before a start."""

from __future__ import annotations

from pathlib import Path

from controller.config.settings import Settings
from controller.process.access.access import HttpAccess, check_exposure
from controller.process.access.tls import TlsFiles
from controller.process.access.tokens import TokenFile


def http_access(settings: Settings) -> HttpAccess:
    """What the endpoints of a process demand, and what its clients show. Raises ConfigError for a file without a
    token."""
    given = settings.http
    return HttpAccess(
        tokens=TokenFile(Path(given.token_file), _named(settings, "http.token_file")) if given.token_file else None,
        tls=TlsFiles(given.tls_certificate, given.tls_key, given.client_authority, given.server_authority),
        open=frozenset(given.open),
        allow_unauthenticated=given.allow_unauthenticated,
    )


def check_http_access(settings: Settings, host_key: str) -> None:
    """Raise ConfigError if HTTP must not be served at the configured host, or if a file is of no use. `host_key`:
    http.bind_host or agent.bind_host."""
    access = http_access(settings)
    check_exposure(access, settings.value(host_key), _named(settings, host_key))
    if access.tls.serves:
        access.tls.server_context()
    if access.tls.configured:
        access.tls.client_context()


def _named(settings: Settings, key: str) -> str:
    return f"{key} = {settings.value(key)} ({settings.origin(key)})"
