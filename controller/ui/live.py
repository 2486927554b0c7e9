"""Changes as server-sent events: one thread follows the tables for all users, `Hub` tells every open page.

An event names the newest versions and nothing else; a page asks again for what it shows. A slow page misses versions in
between, never the newest. Pages hear of a change within a second: the controller's commit, a poll, one request.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator

import msgspec
from deltalake.exceptions import DeltaError

from controller.domain.errors import BallastError, describe_error
from controller.process.clock import wall_ms
from controller.ui.cluster import LiveCluster

log = logging.getLogger(__name__)

POLL_S = 0.25
AFTER_ERROR_S = 2.0
KEEP_ALIVE_S = 15.0  # proxies close what is silent for a minute
MOST_PAGES = 500


class TooManyPages(BallastError):
    """Raised when MOST_PAGES pages follow already."""


class Hub:
    """Tells open pages of changes. `publish` may be called from any thread, all else in the loop's."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pages: set[asyncio.Event] = set()
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether any page is open."""
        return bool(self._pages)

    def publish(self) -> None:
        """Something has changed."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End the streams of all pages."""
        self._closed = True
        self._wake()

    async def follow(self) -> AsyncIterator[bytes]:
        """The stream of one page: the versions now, then whenever they change. Raises TooManyPages."""
        if len(self._pages) >= MOST_PAGES:
            raise TooManyPages(f"{MOST_PAGES} pages are open already; close some")
        self._loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        self._pages.add(changed)
        try:
            yield self._event()
            while not self._closed:
                try:
                    await asyncio.wait_for(changed.wait(), KEEP_ALIVE_S)
                except asyncio.TimeoutError:
                    yield b": still here\n\n"
                    continue
                changed.clear()
                if not self._closed:
                    yield self._event()
        finally:
            self._pages.discard(changed)

    def _wake(self) -> None:
        for changed in self._pages:
            changed.set()

    def _event(self) -> bytes:
        versions = self._cluster.versions
        return b"data: " + msgspec.json.encode({**versions._asdict(), "now_ms": wall_ms()}) + b"\n\n"


class Following:
    """The thread that polls; a store that cannot be read is tried again, and said once."""

    def __init__(self, cluster: LiveCluster, hub: Hub, poll_s: float = POLL_S) -> None:
        self._cluster, self._hub, self._poll_s = cluster, hub, poll_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    @property
    def trouble(self) -> str:
        """Why the tables cannot be read now."""
        return self._cluster.trouble

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns at once if a read hangs."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def look(self) -> bool:
        """Look once, and tell all pages what is new; False if the tables cannot be read. Any thread may."""
        try:
            if self._cluster.poll():
                self._cluster.warm()
                self._hub.publish()
            self._cluster.trouble = ""
        except (BallastError, DeltaError, OSError) as error:
            said, told = self.trouble, describe_error(error)
            self._cluster.trouble = told
            if said != told:
                log.warning("the tables cannot be read: %s; trying again", told)
            return False
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait_s = self._poll_s if self.look() else AFTER_ERROR_S
            self._stopping.wait(wait_s)
