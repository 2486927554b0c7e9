"""Places a bundle at the target of its order before the lookups of its clients spread it over the cluster.

Under the modular load manager the first lookup at the leader after an unload uses the destination up, and only sends
its client there; until the target has taken the bundle, the second lookup gets any broker, and the faster of the two
takes it (`ModularLoadManagerWrapper.getLeastLoaded`, `NamespaceService.searchForCandidateBroker`). With two hundred
clients the second one is milliseconds away. So lookups begin before the unload ends: the leader is asked, without
following it, until it gives the bundle away, whatever it says; then the target is asked as if the leader had sent
a client, and takes the bundle at once. A lookup changes nothing while the bundle has an owner.

A thread with connections of its own does it: milliseconds count, and the agent's loop may be busy with a poll.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from controller.brokers.pulsar.admin import HEADERS, MOST_WORDS_BYTES, REDIRECTS
from controller.domain.pulsar_address import origin_of

PAUSE_S, LATER_PAUSE_S = 0.005, 0.1
OFTEN_FOR_S = 5.0  # an unload that takes longer closes thousands of topics: lookups are rarer then
LOOKS_AFTER = 20  # once the unload was answered; its owner may need a moment to give up the lock
LOOKUP_TIMEOUT_S = 2.0


class Placing:
    """Of one topic's bundle. `source`, `target`, `leader`: addresses; without a target, the leader chooses."""

    def __init__(
        self, topic: str, source: str, target: str | None, leader: str, headers: Mapping[str, str], tls: ssl.SSLContext
    ) -> None:
        """Begins at once, and ends when the bundle was placed, or soon after `finish` or `cancel`.

        `headers`: the credentials, for all three addresses.
        """
        self._path = f"/lookup/v2/topic/{quote(topic.replace('://', '/', 1), safe='/')}"
        self._source, self._target, self._leader = source, target, leader
        self._headers, self._tls = {**HEADERS, **headers}, tls
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._unloaded, self._cancelled = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="placing", daemon=True)
        self._thread.start()

    async def finish(self) -> None:
        """The unload was answered: look until the bundle was placed, but not for long."""
        self._unloaded.set()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def cancel(self) -> None:
        """The unload was refused: stop looking."""
        self._cancelled.set()

    def _run(self) -> None:
        began_s, looks_left = time.monotonic(), LOOKS_AFTER
        while looks_left and not self._cancelled.is_set():
            looks_left -= self._unloaded.is_set()
            given_to, owner = self._look(self._leader)
            if given_to is not None:  # nobody owns it, and the leader has used the destination up
                self._look(self._target or given_to, "?authoritative=true")
                break
            if owner not in (None, self._source):
                break
            self._cancelled.wait(PAUSE_S if time.monotonic() - began_s < OFTEN_FOR_S else LATER_PAUSE_S)
        for connection in self._connections.values():
            connection.close()

    def _look(self, address: str, query: str = "") -> tuple[str | None, str | None]:
        """One lookup, not followed: the broker that gets the unowned bundle, and the bundle's owner, as addresses."""
        connection = self._connections.get(address) or self._connect(address)
        try:
            connection.request("GET", self._path + query, headers=self._headers)
            with connection.getresponse() as response:
                body = response.read(MOST_WORDS_BYTES)
                location = response.headers.get("Location")
                if response.status in REDIRECTS and location:
                    return origin_of(location), None
                return None, self._owner_in(body) if response.status == http.client.OK else None
        except (OSError, ValueError, http.client.HTTPException):
            connection.close()  # the next request connects again
            return None, None

    def _connect(self, address: str) -> http.client.HTTPConnection:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=LOOKUP_TIMEOUT_S, context=self._tls
            )
        else:
            made = http.client.HTTPConnection(host, port, timeout=LOOKUP_TIMEOUT_S)
        self._connections[address] = made
        return made

    def _owner_in(self, body: bytes) -> str | None:
        """The web address of the owner that a lookup was answered with, in the scheme in use."""
        try:
            document = json.loads(body)
        except ValueError:
            return None
        key = "httpUrlTls" if self._source.startswith("https") else "httpUrl"
        url = document.get(key) if isinstance(document, dict) else None
        return origin_of(url) if isinstance(url, str) else None
