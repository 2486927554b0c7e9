"""The address of the operators' page, if `ballast ui` serves this cluster's page where the settings say."""

from __future__ import annotations

import httpx

from controller.config.http_access import http_access
from controller.config.settings import Settings
from controller.domain.errors import BadRecord, ConfigError
from controller.process.access.access import url_of
from controller.process.access.client import new_client, read_object

ANSWER_S = 0.5  # it is on this machine, or near


def find_page(settings: Settings, journal_id: str | None) -> str | None:
    """The address, if a page answers there and follows this journal; a page of another cluster does not count."""
    host = settings.ui.bind_host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if not settings.ui.port:
        return None
    try:
        access = http_access(settings)
        url = url_of(access, host, settings.ui.port)
        with new_client(access, ANSWER_S) as client:
            found = read_object(client.get(f"{url}/healthz"))
    except (httpx.HTTPError, BadRecord, ConfigError, OSError):
        return None
    return f"{url}/" if found.get("journal_id", "") == journal_id else None
