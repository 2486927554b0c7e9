"""Places a bundle at the target of its order before the lookups of its clients spread it over the cluster.

Under the modular load manager the first lookup at the leader after an unload uses the destination up, and only sends
its client there; until the target has taken the bundle, the second lookup gets any broker, and the faster of the two
takes it (`ModularLoadManagerWrapper.getLeastLoaded`, `NamespaceService.searchForCandidateBroker`). With two hundred
clients the second one is milliseconds away. So lookups begin before the unload ends: again and again the leader is
asked, and right after it the target, as if the leader had sent a client. The moment that the bundle is free, the leader
uses the destination up, and the target takes the bundle. A lookup changes nothing while the bundle has an owner.

A thread with connections of its own does it: milliseconds count, and the agent's loop may be busy with a poll.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from controller.brokers.pulsar.admin import HEADERS, MOST_WORDS_BYTES, REDIRECTS, PulsarAdmin
from controller.domain.pulsar_address import origin_of

PAUSE_S, LATER_PAUSE_S = 0.005, 0.1
OFTEN_FOR_S = 5.0  # an unload that takes longer closes thousands of topics: lookups are rarer then
LOOKS_AFTER = 20  # once the unload was answered; its owner may need a moment to give up the lock
LOOKUP_TIMEOUT_S = 2.0
TAKE_IT = "?authoritative=true"  # as a client asks that the leader has sent


class Placing:
    """Of one topic's bundle. `source`, `target`, `leader`: addresses; without a target, the leader chooses."""

    def __init__(
        self, topic: str, source: str, target: str | None, leader: str, admin: PulsarAdmin, headers: Mapping[str, str]
    ) -> None:
        """Begins at once, and ends when the bundle was placed, or soon after `note_unloaded` or `cancel`.

        `headers`: the credentials, which go to brokers that `admin` trusts.
        """
        self._path = f"/lookup/v2/topic/{quote(topic.replace('://', '/', 1), safe='/')}"
        self._source, self._target, self._leader = source, target, leader
        self._admin, self._headers = admin, {**HEADERS, **headers}
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._unloaded, self._cancelled = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="placing", daemon=True)
        self._thread.start()

    def note_unloaded(self) -> None:
        """The unload was done: look until the bundle was placed, but not for long."""
        self._unloaded.set()

    def cancel(self) -> None:
        """The unload was refused: look no more."""
        self._cancelled.set()

    async def wait(self) -> None:
        """Until it has ended, after either."""
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        began_s, looks_left = time.monotonic(), LOOKS_AFTER
        while looks_left and not self._cancelled.is_set():
            looks_left -= self._unloaded.is_set()
            if self._try_once():
                break
            self._cancelled.wait(PAUSE_S if time.monotonic() - began_s < OFTEN_FOR_S else LATER_PAUSE_S)
        for connection in self._connections.values():
            connection.close()

    def _try_once(self) -> bool:
        """Ask the leader and right after it the target, without waiting for the leader's answer; whether it is over."""
        leader_asked = self._ask(self._leader)
        target_asked = self._target is not None and self._target != self._leader and self._ask(self._target, TAKE_IT)
        given_to, owner = self._receive(self._leader) if leader_asked else (None, None)
        taken_by = self._receive(str(self._target))[1] if target_asked else None
        taker = self._target or given_to
        if given_to and taker and taken_by != taker and self._ask(taker, TAKE_IT):
            self._receive(taker)
        return given_to is not None or {owner, taken_by} - {None, self._source} != set()

    def _ask(self, address: str, query: str = "") -> bool:
        """Send a lookup; whether an answer can be waited for."""
        if self._cancelled.is_set() or not self._admin.trusts(address):
            return False
        connection = self._connections.get(address) or self._connect(address)
        try:
            connection.request("GET", self._path + query, headers=self._headers)
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request connects again
            return False
        return True

    def _receive(self, address: str) -> tuple[str | None, str | None]:
        """The answer, not followed: the broker that gets the unowned bundle, and the bundle's owner, as addresses."""
        connection = self._connections[address]
        try:
            with connection.getresponse() as response:
                body = response.read(MOST_WORDS_BYTES)
                location = response.headers.get("Location")
                if response.status in REDIRECTS and location:
                    return origin_of(location), None
                return None, self._owner_in(body) if response.status == http.client.OK else None
        except (OSError, ValueError, http.client.HTTPException):
            connection.close()
            return None, None

    def _connect(self, address: str) -> http.client.HTTPConnection:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=LOOKUP_TIMEOUT_S, context=self._admin.tls
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
