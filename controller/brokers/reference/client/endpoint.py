"""What producers and consumers share: find the owner, open there, follow the bundle when it moves.

The client remembers the newest journal seq that it heard for its topic. An answer with an older seq comes from a party
that lags: the client does not follow it, and its next lookup asks for at least the remembered seq.
"""

from __future__ import annotations

import asyncio

from controller.brokers.reference.client.link import Link, Links
from controller.brokers.reference.client.lookup import FIRST_BACKOFF_S, MAX_BACKOFF_S, Lookup
from controller.brokers.reference.store.protocol import Header
from controller.domain.ids import namespace_of

STEADY_S = 1.0  # once open for this long, earlier failures are forgotten


class Refused(Exception):
    """Raised when a broker refuses this client for good."""


class Endpoint:
    """Keeps one producer or consumer open at the current owner of its topic."""

    def __init__(self, topic: str, lookup: Lookup, links: Links) -> None:
        namespace_of(topic)  # raises BadRecord here rather than at every agent
        self.topic = topic
        self.reopened = 0
        self.refused = 0
        self._lookup = lookup
        self._links = links
        self._link: Link | None = None
        self._ref = -1
        self.cause = ""  # of the last detachment: moved, dropped, reopen, lost
        self._known_seq = 0
        self._hint = ""  # where the last broker redirected us
        self._detached = asyncio.Event()
        self._first_opened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Find the owner and open there; returns once that is done. Raises Refused."""
        self._task = asyncio.create_task(self._keep_open(), name=f"client {self.topic}")
        self._task.add_done_callback(_report_failure)
        opened = asyncio.create_task(self._first_opened.wait())
        await asyncio.wait([opened, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            opened.cancel()
            self._task.result()

    async def stop(self) -> None:
        """Close."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._link is not None:
            self._link.detach(self._ref)
            self._link = None

    @property
    def address(self) -> str:
        """The broker where it is open; empty while it is not."""
        return self._link.address if self._link is not None else ""

    def opening_request(self) -> Header:
        """The opening request without `ref` and `seq`."""
        raise NotImplementedError

    def handle_opened(self, answer: Header) -> None:
        """Handle the broker's acceptance."""
        raise NotImplementedError

    def on_frame(self, header: Header, body: bytes) -> None:
        """Handle a frame for this client."""
        raise NotImplementedError

    def on_opened(self, link: Link, ref: int, header: Header) -> None:
        """Handle the broker's acceptance on a link."""
        self._link, self._ref = link, ref
        self.handle_opened(header)

    def on_detached(self, header: Header) -> None:
        """Handle that the bundle moved, the topic is to be reopened, or the connection is gone."""
        self.cause = header["op"]
        if header["op"] == "reopen" and self._link is not None:
            self._hint = self._link.address
        elif header["op"] == "moved":
            self._follow(header)
            self.cause = "moved" if header["address"] else "dropped"
        self._link = None
        self._detached.set()

    async def _keep_open(self) -> None:
        pause = Backoff()
        loop = asyncio.get_running_loop()
        while True:
            if await self._try_open():
                opened_s = loop.time()
                self._first_opened.set()
                await self._detached.wait()
                self.reopened += 1
                if self.cause == "moved" or loop.time() - opened_s > STEADY_S:
                    pause.reset()
                else:
                    await asyncio.sleep(pause.next_s() if pause.tries > 1 else 0)
                    pause.tries += 1
            elif self._hint and pause.tries < 3:
                pause.tries += 1  # redirected: follow at once, but not in circles
            else:
                await asyncio.sleep(pause.next_s())

    async def _try_open(self) -> bool:
        address, self._hint = self._hint, ""
        if not address:
            owner = await self._lookup.find(self.topic, self._known_seq)
            address, self._known_seq = owner.address, max(self._known_seq, owner.seq)
        try:
            link = await self._links.to(address)
        except OSError:
            return False
        self._detached.clear()
        answer = await link.attach({**self.opening_request(), "seq": self._known_seq}, self)
        if answer["op"] == "opened":
            return True
        if answer["op"] == "refused":
            self.refused += 1
            if not answer.get("retry", True):
                raise Refused(f"{address} refused {self.topic}: {answer['reason']}")
        else:
            self._follow(answer)
        return False

    def _follow(self, header: Header) -> None:
        seq, address = int(header.get("seq", 0)), str(header.get("address", ""))
        if address and seq >= self._known_seq:
            self._hint = address
        self._known_seq = max(self._known_seq, seq)


def _report_failure(task: asyncio.Task[None]) -> None:
    """Report a failed client to the process; otherwise it would look like one that is not served."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        context = {"message": f"{task.get_name()} ended", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


class Backoff:
    """Pauses that double up to a maximum."""

    def __init__(self, first_s: float = FIRST_BACKOFF_S, most_s: float = MAX_BACKOFF_S) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self.tries = 0

    def next_s(self) -> float:
        """The next pause in seconds."""
        self.tries += 1
        return min(self._most_s, self._first_s * 2.0 ** min(self.tries - 1, 10))

    def reset(self) -> None:
        """Start over."""
        self.tries = 0
