"""The store's client: pipelined requests over one connection, which reconnects by itself.

After a reconnect all unanswered requests are sent again in their original order. What the store has carried out already
it answers as the first time, and callers notice only a delay. One answer differs: a request from before an `acquire`
that was carried out as well is now below the fence. It raises Fenced, and its outcome is unknown: who has acquired a
later epoch since is not to take that for another owner's. Requests are carried out in the order of the calls: an
`append` after an `acquire` is checked against the fence that this `acquire` raised. A request that is not answered
within `timeout_s` raises StoreError, and its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from controller.brokers.reference.store.fences import Fence
from controller.brokers.reference.store.messages import Message, StoredMessage, pack_messages, unpack_all_stored
from controller.brokers.reference.store.protocol import FrameConnection, Header, connect, encode, to_exception
from controller.domain.errors import StoreError
from controller.domain.ids import Bundle

log = structlog.get_logger()
FIRST_BACKOFF_S = 0.02
MAX_BACKOFF_S = 1.0
Answer = tuple[Header, bytes]


@dataclass(frozen=True, slots=True)
class Appended:
    """The offsets of an append's messages, in order, and the indexes of those that were stored before."""

    offsets: list[int]
    duplicates: frozenset[int]


class _Request(NamedTuple):
    frame: bytes
    future: asyncio.Future[Answer]
    timer: asyncio.TimerHandle
    sent_s: float


class StoreClient:
    """One connection to the store. Use it from one event loop."""

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self._timeout_s = timeout_s
        self._unanswered: dict[int, _Request] = {}
        self._connection: FrameConnection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._last_id = 0
        self._answers = 0
        self._latency_s = 0.0
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Why the store does not answer, as of the newest attempt or request; empty while it does. A store that hangs
        shows once a request has run out of time."""
        return self._trouble and f"the segment store at {self._host}:{self._port} does not answer: {self._trouble}"

    async def start(self) -> None:
        """Connect. Raises StoreError when the store does not answer within `timeout_s`."""
        self._keeper = asyncio.create_task(self._keep_connected(), name="store-client")
        try:
            await self.call({"op": "ping"})
        except StoreError as error:
            if self._answers:
                raise
            raise StoreError(
                f"no segment store answers at {self._host}:{self._port} within {self._timeout_s:g} s: is"
                " `ballast store` running, and is store.address right?"
            ) from error

    async def stop(self) -> None:
        """Close the connection; unanswered requests raise StoreError."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()
        for request in self._unanswered.values():
            request.timer.cancel()
            if not request.future.done():
                request.future.set_exception(StoreError("the store's client was stopped"))
        self._unanswered.clear()

    def call(self, header: Header, body: bytes = b"") -> asyncio.Future[Answer]:
        """Send one request now; the future resolves to (header, body) or raises Fenced, OutOfSequence or StoreError."""
        loop = asyncio.get_running_loop()
        self._last_id += 1
        request = self._last_id
        frame = encode({"id": request, **header}, body)
        future: asyncio.Future[Answer] = loop.create_future()
        timer = loop.call_later(self._timeout_s, self._expire, request, header["op"])
        self._unanswered[request] = _Request(frame, future, timer, loop.time())
        if self._connection is not None:
            self._connection.write(frame)
        return future

    async def acquire(self, bundle: Bundle, epoch: int, owner: str, *, tails: bool = True) -> dict[str, dict[str, Any]]:
        """Raise the fence over the bundle; returns the tails of its topics by name (`StoredTopic.tail`)."""
        header, _ = await self.send_acquire(bundle, epoch, owner, tails=tails)
        topics: dict[str, dict[str, Any]] = header["topics"]
        return topics

    def send_acquire(self, bundle: Bundle, epoch: int, owner: str, *, tails: bool) -> asyncio.Future[Answer]:
        """As `acquire`, sent at once: later calls on this client are carried out after it."""
        return self.call({"op": "acquire", "bundle": str(bundle), "epoch": epoch, "owner": owner, "tails": tails})

    async def append(self, topic: str, epoch: int, owner: str, messages: list[Message]) -> Appended:
        """Store messages of one topic, all or none."""
        header, _ = await self.send_append(topic, epoch, owner, pack_messages(messages))
        return Appended(header["offsets"], frozenset(header["duplicates"]))

    def send_append(self, topic: str, epoch: int, owner: str, body: bytes) -> asyncio.Future[Answer]:
        """As `append`, with packed messages; the answer's header has `offsets` and `duplicates`."""
        return self.call({"op": "append", "topic": topic, "epoch": epoch, "owner": owner}, body)

    async def read(self, topic: str, offset: int, max_bytes: int = 256 * 1024) -> tuple[list[StoredMessage], int]:
        """Messages from the offset on, and the offset after them."""
        header, body = await self.call({"op": "read", "topic": topic, "offset": offset, "max_bytes": max_bytes})
        return unpack_all_stored(body), header["next"]

    async def subscribe(
        self, topic: str, subscription: str, epoch: int, owner: str, *, latest: bool = False
    ) -> dict[str, Any]:
        """The subscription's cursor (`mark`, `ranges`, `start`), created if it is new."""
        header, _ = await self.call(
            {
                "op": "subscribe",
                "topic": topic,
                "subscription": subscription,
                "epoch": epoch,
                "owner": owner,
                "latest": latest,
            }
        )
        return header

    def ack(
        self,
        topic: str,
        subscription: str,
        epoch: int,
        owner: str,
        ranges: list[tuple[int, int]],
        below: int | None = None,
    ) -> asyncio.Future[Answer]:
        """Acknowledge offset ranges and/or everything below an offset, durably."""
        return self.call(
            {
                "op": "ack",
                "topic": topic,
                "subscription": subscription,
                "epoch": epoch,
                "owner": owner,
                "ranges": ranges,
                "below": below,
            }
        )

    async def create_topic(self, topic: str) -> dict[str, Any]:
        """Create the topic unless it exists; returns its tail."""
        return (await self.call({"op": "create_topic", "topic": topic}))[0]

    async def tail(self, topic: str) -> dict[str, Any]:
        """Next offset, last sequences and cursors of one topic."""
        return (await self.call({"op": "tail", "topic": topic}))[0]

    async def topics(self, bundle: Bundle) -> list[str]:
        """The topics of a hash range."""
        found: list[str] = (await self.call({"op": "topics", "bundle": str(bundle)}))[0]["topics"]
        return found

    async def stats(self) -> dict[str, dict[str, Any]]:
        """Bytes, messages and backlog by subscription, per topic."""
        found: dict[str, dict[str, Any]] = (await self.call({"op": "stats"}))[0]["topics"]
        return found

    async def fences(self) -> list[Fence]:
        """Every fence in force."""
        return [Fence(*found) for found in (await self.call({"op": "fences"}))[0]["fences"]]

    def take_mean_latency_ms(self) -> float:
        """The mean time from call to answer since this was last called; 0 without answers."""
        mean_ms = 1000.0 * self._latency_s / self._answers if self._answers else 0.0
        self._answers, self._latency_s = 0, 0.0
        return mean_ms

    async def _keep_connected(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            self._lost.clear()
            try:
                connection = await connect(
                    lambda: FrameConnection(self._on_frame, self._on_lost), self._host, self._port
                )
            except OSError as error:
                log.warning("store_unreachable", address=f"{self._host}:{self._port}", error=str(error))
                self._trouble = str(error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(MAX_BACKOFF_S, 2 * backoff_s)
                continue
            backoff_s = FIRST_BACKOFF_S
            self._connection = connection
            self._trouble = ""
            connection.write(b"".join(request.frame for request in self._unanswered.values()))
            await self._lost.wait()

    def _on_lost(self, connection: FrameConnection) -> None:
        self._connection = None
        self._lost.set()

    def _on_frame(self, connection: FrameConnection, header: Header, body: bytes) -> None:
        request = self._unanswered.pop(header["id"], None)
        if request is None:
            return
        request.timer.cancel()
        self._trouble = ""
        self._answers += 1
        self._latency_s += asyncio.get_running_loop().time() - request.sent_s
        if request.future.done():
            return
        if "error" in header:
            request.future.set_exception(to_exception(header))
        else:
            request.future.set_result((header, body))

    def _expire(self, request: int, operation: str) -> None:
        found = self._unanswered.pop(request, None)
        self._trouble = self._trouble or f"{operation} took more than {self._timeout_s:g} s"
        if found is not None and not found.future.done():
            found.future.set_exception(
                StoreError(f"the store did not answer {operation} within {self._timeout_s} s: outcome unknown")
            )
