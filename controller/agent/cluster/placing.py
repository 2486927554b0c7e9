"""Places a bundle at the target of its order before the lookups of its clients spread it over the cluster.

Under the modular load manager the first lookup at the leader after an unload uses the destination up, and only sends
its client there; until the target has taken the bundle, the second lookup gets any broker, and the faster of the two
takes it (`ModularLoadManagerWrapper.getLeastLoaded`, `NamespaceService.searchForCandidateBroker`). With two hundred
clients the second one is milliseconds away. So lookups begin before the unload ends: again and again the leader is
asked, and the moment that it has used the destination up, the target, as if the leader had sent a client. A lookup
changes nothing while the bundle has an owner.

A client waits about 100 ms before it looks up. Many topics take longer than that to close, so the first clients look
up while the last topics are closed: there the target is asked all the time as well, and takes the bundle the moment
that it is free. Elsewhere it is not: an unused destination would decide a later placement.

Threads with connections of their own do it, one for each broker: milliseconds count, the agent's loop may be busy with
a poll, and a leader that closes the bundle's topics itself answers slowly.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from controller.brokers.pulsar.admin import HEADERS, MOST_WORDS_BYTES, REDIRECTS, PulsarAdmin
from controller.pulsar.address import origin_of

PAUSE_S, LATER_PAUSE_S = 0.005, 0.1
OFTEN_FOR_S = 15.0  # an unload that takes longer closes thousands of topics: lookups are rarer then
MANY_TOPICS = 10  # a bundle with as many is not closed before its first clients look up
LOOKS_AFTER = 20  # once the unload was answered; its owner may need a moment to give up the lock
LOOKUP_TIMEOUT_S = 2.0
UNLOADING = b"is being unloaded"  # `NamespaceService.getBrokerServiceUrlAsync`, in a stack trace
TAKE_IT = "?authoritative=true"  # as a client asks that the leader has sent


class Answer(NamedTuple):
    """Of one lookup, not followed, as addresses: who gets the unowned bundle, or who owns it. `unloading`: nobody may
    have it just now."""

    given_to: str | None = None
    owner: str | None = None
    unloading: bool = False


def lookup_path(topic: str) -> str:
    """Where a broker is asked who owns the topic."""
    return f"/lookup/v2/topic/{quote(topic.replace('://', '/', 1), safe='/')}"


class Placing:
    """Of one bundle. `source`, `target`, `leader`: addresses; without a target, the leader chooses."""

    def __init__(
        self, topics: Sequence[str], source: str, target: str | None, leader: str,
        admin: PulsarAdmin, headers: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Begins at once, and ends when the bundle was placed, or soon after `note_unloaded` or `cancel`.

        `topics`: the bundle's, at least one. `headers`: the credentials, which go to brokers that `admin` trusts.
        """
        self._path = lookup_path(topics[0])
        self._source, self._target, self._leader = source, target, leader
        self._admin, self._headers = admin, {**HEADERS, **headers}
        self._unloaded, self._cancelled = threading.Event(), threading.Event()
        self._seen_unloading, self._placed_since = threading.Event(), threading.Event()
        self._leader_asked = threading.Event()  # the leader has a lookup to answer, or gets no more
        self._threads = [self._start(self._ask_leader)]
        if len(topics) >= MANY_TOPICS and target is not None and target != leader:
            self._threads.append(self._start(self._ask_target, target))

    def note_unloaded(self) -> None:
        """The unload was done: look until the bundle was placed, but not for long."""
        self._unloaded.set()

    def cancel(self) -> None:
        """The unload was refused: look no more."""
        self._cancelled.set()

    async def wait(self) -> bool:
        """Until it has ended, after either; whether the bundle was seen to be given up and placed again, which uses the
        destination up."""
        for thread in self._threads:
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
        return self._placed_since.is_set()

    def _start(self, ask: Callable[..., None], *of: str) -> threading.Thread:
        thread = threading.Thread(target=ask, args=of, name="placing", daemon=True)
        thread.start()
        return thread

    def _ask_leader(self) -> None:
        """Until the leader has used the destination up; then the target, or the leader's choice, takes the bundle."""
        answer = Answer()
        with closing(self._connect(self._leader)) as connection:
            for _ in self._turns():
                answer = self._look_up(connection, on_sent=self._leader_asked.set)
                if answer.given_to or answer.owner not in (None, self._source):
                    break
                self._leader_asked.clear()
        self._leader_asked.set()
        taker = self._target or answer.given_to
        if answer.given_to and taker and self._admin.trusts(taker):
            with closing(self._connect(taker)) as connection:
                self._look_up(connection, TAKE_IT)

    def _ask_target(self, target: str) -> None:
        """Until somebody else than the source owns the bundle."""
        with closing(self._connect(target)) as connection:
            for _ in self._turns():
                self._leader_asked.wait(LOOKUP_TIMEOUT_S)
                if self._look_up(connection, TAKE_IT).owner not in (None, self._source):
                    break

    def _turns(self) -> Iterator[None]:
        """One for each lookup, for as long as they are of use."""
        began_s, looks_left = time.monotonic(), LOOKS_AFTER
        while looks_left and not self._cancelled.is_set():
            looks_left -= self._unloaded.is_set()
            yield
            self._cancelled.wait(PAUSE_S if time.monotonic() - began_s < OFTEN_FOR_S else LATER_PAUSE_S)

    def _look_up(
        self, connection: http.client.HTTPConnection, query: str = "", on_sent: Callable[[], None] = lambda: None
    ) -> Answer:
        try:
            connection.request("GET", self._path + query, headers=self._headers)
            on_sent()
            answer = self._receive(connection)
        except (OSError, ValueError, http.client.HTTPException):
            connection.close()  # the next request connects again
            return Answer()
        if answer.unloading:
            self._seen_unloading.set()
        if answer.given_to or (answer.owner and self._seen_unloading.is_set()):
            self._placed_since.set()
        return answer

    def _receive(self, connection: http.client.HTTPConnection) -> Answer:
        with connection.getresponse() as response:
            body = response.read(MOST_WORDS_BYTES)
            location = response.headers.get("Location")
            if response.status in REDIRECTS and location:
                return Answer(given_to=origin_of(location))
            if response.status == http.client.OK:
                return Answer(owner=self._owner_in(body))
            return Answer(unloading=UNLOADING in body)

    def _connect(self, address: str) -> http.client.HTTPConnection:
        """A connection that is opened by its first request. The address is one that may see the credentials."""
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=LOOKUP_TIMEOUT_S, context=self._admin.tls)
        return http.client.HTTPConnection(host, port, timeout=LOOKUP_TIMEOUT_S)

    def _owner_in(self, body: bytes) -> str | None:
        """The web address of the owner that a lookup was answered with, in the scheme in use."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return None
        key = "httpUrlTls" if self._source.startswith("https") else "httpUrl"
        url = document.get(key) if isinstance(document, dict) else None
        return origin_of(url) if isinstance(url, str) else None
