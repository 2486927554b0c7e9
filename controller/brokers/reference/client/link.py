"""Connections of a client process to brokers: one per address, shared by its producers and consumers.

A link that stays silent for `SILENT_S` in spite of pings is closed, because a stopped process keeps its sockets open.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from controller.brokers.reference.store.protocol import FrameConnection, Header, connect

PING_EVERY_S = 1.0
SILENT_S = 4.0


class Attached(Protocol):
    """A producer or consumer on a link."""

    def on_opened(self, link: Link, ref: int, header: Header) -> None:
        """Handle the broker's acceptance; frames for the ref may follow in the same read."""

    def on_frame(self, header: Header, body: bytes) -> None:
        """Handle a frame for this ref."""

    def on_detached(self, header: Header) -> None:
        """Handle that the ref is gone: `moved`, `reopen` or `lost`."""


class Link:
    """One connection to a broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._attached: dict[int, Attached] = {}
        self._answers: dict[int, asyncio.Future[Header]] = {}
        self._last_ref = 0
        self._heard_s = 0.0
        self._connection: FrameConnection | None = None
        self._pinger: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        """Whether frames can be sent."""
        return self._connection is not None and self._connection.open

    async def connect(self) -> None:
        """Connect. Raises OSError."""
        host, _, port = self.address.rpartition(":")
        loop = asyncio.get_running_loop()
        self._connection = await connect(lambda: FrameConnection(self._on_frame, self._on_lost), host, int(port))
        self._heard_s = loop.time()
        self._pinger = loop.call_later(PING_EVERY_S, self._ping)

    async def attach(self, header: Header, client: Attached) -> Header:
        """Send an opening request and wait for the answer; from then on, frames for the ref go to the client."""
        self._last_ref += 1
        ref = self._last_ref
        future: asyncio.Future[Header] = asyncio.get_running_loop().create_future()
        self._answers[ref] = future
        self._attached[ref] = client
        self.send({**header, "ref": ref})
        if not self.open:
            self._on_lost()
        try:
            answer = await future
        except asyncio.CancelledError:
            self.detach(ref)
            raise
        if answer["op"] != "opened":
            self._attached.pop(ref, None)
        return answer

    def detach(self, ref: int) -> None:
        """Close one ref."""
        self._answers.pop(ref, None)
        if self._attached.pop(ref, None) is not None:
            self.send({"op": "close", "ref": ref})

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send a frame."""
        if self._connection is not None:
            self._connection.send(header, body)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _on_frame(self, connection: FrameConnection, header: Header, body: bytes) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        op = header["op"]
        if op == "pong":
            return
        if op in ("moved", "reopen"):
            for ref in header["refs"]:
                client = self._attached.pop(ref, None)
                if client is not None:
                    client.on_detached(header)
            return
        waiting = self._answers.pop(header["ref"], None)
        if waiting is not None and not waiting.done():
            client = self._attached.get(header["ref"])
            if op == "opened" and client is not None:
                client.on_opened(self, header["ref"], header)
            waiting.set_result(header)
            return
        client = self._attached.get(header["ref"])
        if client is not None:
            client.on_frame(header, body)

    def _on_lost(self, connection: FrameConnection | None = None) -> None:
        if self._pinger is not None:
            self._pinger.cancel()
        lost = {"op": "lost"}
        answers, self._answers = self._answers, {}
        attached, self._attached = self._attached, {}
        for ref, future in answers.items():
            attached.pop(ref, None)
            if not future.done():
                future.set_result(lost)
        for client in attached.values():
            client.on_detached(lost)

    def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        if self._connection is None or not self.open:
            return
        if loop.time() - self._heard_s > SILENT_S:
            self._connection.abort()
            return
        self.send({"op": "ping"})
        self._pinger = loop.call_later(PING_EVERY_S, self._ping)


class Links:
    """All links of a process, by address."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._connecting: dict[str, asyncio.Future[Link]] = {}

    async def to(self, address: str) -> Link:
        """The connected link to an address. Raises OSError."""
        found = self._links.get(address)
        if found is not None and found.open:
            return found
        connecting = self._connecting.get(address)
        if connecting is None:
            connecting = self._connecting[address] = asyncio.ensure_future(self._connect(address))
            connecting.add_done_callback(lambda done: self._connecting.pop(address, None))
        return await asyncio.shield(connecting)

    def close(self) -> None:
        """Close all."""
        for link in self._links.values():
            link.close()

    async def _connect(self, address: str) -> Link:
        link = Link(address)
        await link.connect()
        self._links[address] = link
        return link
