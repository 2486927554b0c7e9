"""Sends the requests that change something in a Pulsar cluster, each once, and tells how far it came.

Redirects are followed by hand as the same method, only to addresses that may get the credentials. A change waits for
nothing: what allowed it might no longer hold. The controller limits how many orders run at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from controller.brokers.pulsar.admin import MOST_REDIRECTS, PulsarAdmin
from controller.brokers.pulsar.auth import CredentialsMissing
from controller.brokers.pulsar.outcomes import words_of
from controller.pulsar.address import join_location, origin_of

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of a change. `status`: of HTTP, 0 without an answer. `hops`: the addresses that may have received the
    request, in order; those where no connection was made are not among them. `unanswered`: the last of them may have
    acted on it; those before it redirected it."""

    status: int
    hops: tuple[str, ...]
    detail: str = ""
    unanswered: bool = False


class PulsarChanges:
    """PUT, POST and DELETE on one Pulsar cluster."""

    def __init__(self, admin: PulsarAdmin) -> None:
        self._admin = admin

    async def send(
        self, method: str, path: str, at: str, *, timeout_s: float, params: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Sent:  # fmt: skip
        """Send one request to the broker at an address. `timeout_s`: for each answer. `body`: sent as JSON."""
        return await self._follow(method, f"{at}{path}", dict(params or {}), body, timeout_s)

    async def _follow(self, method: str, url: str, params: dict[str, str], body: Any, timeout_s: float) -> Sent:
        hops: list[str] = []
        timeout = httpx.Timeout(timeout_s, connect=self._admin.settings.connect_timeout_s)
        while True:
            origin = origin_of(url) or ""
            try:
                headers = await self._admin.credentials.headers()
                async with self._admin.client(origin) as client:
                    response = await client.request(
                        method, url, params=params or None, json=body, headers=dict(headers), timeout=timeout
                    )
            except CredentialsMissing as error:
                return Sent(0, tuple(hops), str(error))
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL) as error:
                return Sent(0, tuple(hops), f"no connection to {origin}: {type(error).__name__}")
            except (httpx.HTTPError, ssl.SSLError) as error:  # the latter after the handshake, in place of an answer
                return Sent(0, (*hops, origin), f"no answer from {origin}: {type(error).__name__}", unanswered=True)
            hops.append(origin)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not location:
                detail = "" if response.is_success else words_of(response.content)
                return Sent(response.status_code, tuple(hops), detail)
            url, params = join_location(url, location), {}  # a Location is whole
            place = origin_of(url)
            if not self._admin.trusts(place) or len(hops) > MOST_REDIRECTS:
                detail = f"redirected to {place or 'no web address'}, which is not known, or too often"
                return Sent(0, tuple(hops), detail)
