"""The operators' page, if `ballast ui` serves this cluster's where the settings say: its address, and what it answers.

The page follows the journal, so a command that asks it need not read the state of a large cluster first. The HTTP
client, which takes long to import, is only imported where somebody listens.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from controller.config.http_access import http_access
from controller.config.settings import Settings
from controller.domain.errors import BadRecord, ConfigError
from controller.process.access.access import url_of

if TYPE_CHECKING:
    import httpx

ANSWER_S = 0.5  # it is on this machine, or near
DOCUMENT_S = 30.0  # it may have to decide a round first
MOST_DOCUMENT_BYTES = 64 * 1_048_576
_OK = 200
_T = TypeVar("_T")


def find_page(settings: Settings, journal_id: str | None) -> str | None:
    """The address, if a page answers there and follows this journal; a page of another cluster does not count."""
    found = _ask(
        settings, lambda client, url: url if _health(client, url).get("journal_id", "") == journal_id else None
    )
    return f"{found}/" if found else None


def ask_page(settings: Settings, tables: str, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    """What the page of these tables answers to `path`; None without such a page, or if it cannot tell."""

    def ask(client: httpx.Client, url: str) -> dict[str, Any] | None:
        from controller.process.access.client import read_object

        health = _health(client, url)
        if not health.get("ok") or health.get("tables") != tables:
            return None
        answer = client.get(f"{url}{path}", params=dict(query), timeout=DOCUMENT_S)
        return read_object(answer, MOST_DOCUMENT_BYTES) if answer.status_code == _OK else None

    return _ask(settings, ask)


def _health(client: httpx.Client, url: str) -> dict[str, Any]:
    from controller.process.access.client import read_object

    return read_object(client.get(f"{url}/healthz"))


def _ask(settings: Settings, ask: Callable[[httpx.Client, str], _T]) -> _T | None:
    """What `ask` returns of a client and the page's address; None where nobody answers as a page would."""
    host = settings.ui.bind_host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if not settings.ui.port or not _listens(host, settings.ui.port):
        return None
    import httpx

    from controller.process.access.client import new_client

    try:
        access = http_access(settings)
        with new_client(access, ANSWER_S) as client:
            return ask(client, url_of(access, host, settings.ui.port))
    except (httpx.HTTPError, BadRecord, ConfigError, OSError):
        return None


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ANSWER_S).close()
    except (OSError, UnicodeError):  # UnicodeError: no name at all, such as one with an empty label
        return False
    return True
