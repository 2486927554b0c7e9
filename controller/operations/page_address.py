"""The operators' page, if `ballast ui` serves this cluster's where the settings say: its address, and what it answers.

The page follows the journal, so a command that asks it need not read the state of a large cluster first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.parse import urlencode

from controller.config.http_access import http_access
from controller.config.settings import Settings
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.strict_json import parse_strictly
from controller.process.access.access import HttpAccess, url_of
from controller.process.access.plain_client import get

ANSWER_S = 0.5  # it is on this machine, or near
DOCUMENT_S = 30.0  # it may have to decide a round first
MOST_HEALTH_BYTES, MOST_DOCUMENT_BYTES = 1_048_576, 64 * 1_048_576
_OK = 200
_T = TypeVar("_T")


def find_page(settings: Settings, journal_id: str | None, tables: str) -> str | None:
    """The address, if a page answers there and follows this journal in these tables.

    A page of another cluster does not count, nor does that of the cluster from which these tables were captured.
    """

    def ask(access: HttpAccess, host: str, port: int) -> str | None:
        health = _health(access, host, port)
        found = health.get("journal_id", "") == journal_id and health.get("tables") == tables
        return f"{url_of(access, host, port)}/" if found else None

    return _ask(settings, ask)


def ask_page(settings: Settings, tables: str, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    """What the page of these tables answers to `path`; None without such a page, or if it cannot tell."""

    def ask(access: HttpAccess, host: str, port: int) -> dict[str, Any] | None:
        health = _health(access, host, port)
        if not health.get("ok") or health.get("tables") != tables:
            return None
        target = f"{path}?{urlencode(query)}" if query else path
        status, body = get(access, host, port, target, DOCUMENT_S, MOST_DOCUMENT_BYTES)
        return _object_of(body, MOST_DOCUMENT_BYTES) if status == _OK else None

    return _ask(settings, ask)


def _health(access: HttpAccess, host: str, port: int) -> dict[str, Any]:
    return _object_of(get(access, host, port, "/healthz", ANSWER_S, MOST_HEALTH_BYTES)[1], MOST_HEALTH_BYTES)


def _object_of(body: bytes, most_bytes: int) -> dict[str, Any]:
    """The JSON object that was answered. Raises BadRecord: whoever listens there may answer anything."""
    found = parse_strictly(body, most_bytes, unique=False)
    if not isinstance(found, dict):
        raise BadRecord("not_object", f"a JSON {type(found).__name__}, not an object")
    return found


def _ask(settings: Settings, ask: Callable[[HttpAccess, str, int], _T | None]) -> _T | None:
    """What `ask` returns of the page's access, host and port; None where nobody answers as a page would."""
    host = settings.ui.bind_host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if not settings.ui.port:
        return None
    try:
        return ask(http_access(settings), host, settings.ui.port)
    except (HTTPException, BadRecord, ConfigError, OSError, UnicodeError):  # UnicodeError: a host that is no name
        return None
