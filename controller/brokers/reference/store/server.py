"""`ballast store`: the segment store as a process of its own, TCP on loopback.

One event loop, one thread: operations are carried out one after the other, so a fence and an append never race. With
`--fsync`, the answers of one loop iteration wait for a common sync (group commit). If that fails, nothing more is
answered and the process ends: the operating system may have dropped what it could not write, and reports that once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import structlog

from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.fields import (
    number_in,
    optional_number_in,
    ranges_in,
    switch_in,
    text_in,
    topic_in,
)
from controller.brokers.reference.store.framed_log import Sync
from controller.brokers.reference.store.messages import unpack_messages
from controller.brokers.reference.store.protocol import FrameConnection, Header, encode, error_header
from controller.domain.errors import BadRecord, BallastError, StoreError, shown
from controller.domain.ids import Bundle

log = structlog.get_logger()
MAX_READ_BYTES = 16 << 20  # of an answer, unless a single message is larger


class StoreServer:
    """Serves one engine to any number of connections."""

    def __init__(self, engine: StoreEngine, on_failure: Callable[[], object] = lambda: None) -> None:
        """`on_failure` is called once the engine could not flush what was stored: this server answers nothing more."""
        self.failure: StoreError | None = None
        self._engine = engine
        self._on_failure = on_failure
        self._server: asyncio.Server | None = None
        self._connections: set[FrameConnection] = set()
        self._unsent: list[tuple[FrameConnection, bytes]] = []
        self._operations: dict[str, Callable[[Header, bytes], tuple[Header, bytes]]] = {
            "acquire": self._acquire,
            "append": self._append,
            "read": self._read,
            "subscribe": self._subscribe,
            "ack": self._ack,
            "create_topic": self._create_topic,
            "topics": self._topics,
            "tail": self._tail,
            "stats": self._stats,
            "fences": self._list_fences,
            "ping": lambda header, body: ({}, b""),
        }

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen; returns `host:port`."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: FrameConnection(self._on_frame, self._connections.discard, self._connections.add), host, port
        )
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close all connections; everything answered stays stored."""
        if self._server is not None:
            self._server.close()
        if self.failure is None:
            self._flush()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

    def _on_frame(self, connection: FrameConnection, header: Header, body: bytes) -> None:
        if self.failure is not None:
            return
        request, op = number_in(header, "id"), header.get("op")
        operation = self._operations.get(op) if isinstance(op, str) else None
        try:
            if operation is None:
                raise StoreError(f"unknown operation {shown(op)}: one of {', '.join(self._operations)}")
            answer, data = operation(header, body)
        except BadRecord as error:
            answer, data = error_header(StoreError(f"bad {op} request: {error.text}")), b""
        except BallastError as error:
            answer, data = error_header(error), b""
        except OSError as error:
            answer, data = error_header(StoreError(f"{op}: {error}; check the disk")), b""
        frame = encode({"id": request, **answer}, data)
        if not self._engine.fsync:
            connection.write(frame)
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append((connection, frame))

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        try:
            self._engine.sync()
        except StoreError as error:
            log.error("store_failed", error=str(error), unanswered=len(unsent))
            self.failure = error
            self._on_failure()
            return
        for connection, frame in unsent:
            connection.write(frame)

    def _acquire(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        bundle, tails = Bundle.parse(text_in(header, "bundle")), switch_in(header, "tails", True)
        return {"topics": self._engine.acquire(bundle, *_owner_in(header), tails=tails)}, b""

    def _append(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        messages = unpack_messages(body)
        stored = self._engine.append(topic_in(header), *_owner_in(header), messages)
        duplicates = [i for i, s in enumerate(stored) if s.duplicate]
        return {"offsets": [s.offset for s in stored], "duplicates": duplicates}, b""

    def _read(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        most = min(number_in(header, "max_bytes"), MAX_READ_BYTES)
        data, after = self._engine.read(topic_in(header), number_in(header, "offset"), most)
        return {"next": after}, data

    def _subscribe(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        latest, subscription = switch_in(header, "latest", False), text_in(header, "subscription")
        cursor = self._engine.subscribe(topic_in(header), subscription, *_owner_in(header), latest=latest)
        return {"mark": cursor.mark, "ranges": cursor.ranges, "start": cursor.start}, b""

    def _ack(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        below = optional_number_in(header, "below")
        ranges, subscription = ranges_in(header, "ranges"), text_in(header, "subscription")
        cursor = self._engine.acknowledge(topic_in(header), subscription, *_owner_in(header), ranges, below)
        return {"mark": cursor.mark}, b""

    def _create_topic(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        return self._engine.create_topic(topic_in(header)).tail(), b""

    def _topics(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        return {"topics": self._engine.topics(Bundle.parse(text_in(header, "bundle")))}, b""

    def _tail(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        return self._engine.tail(topic_in(header)), b""

    def _stats(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        return {"topics": self._engine.stats()}, b""

    def _list_fences(self, header: Header, body: bytes) -> tuple[Header, bytes]:
        return {"fences": [list(fence) for fence in self._engine.fences()]}, b""


def _owner_in(header: Header) -> tuple[int, str]:
    """The epoch and the owner that a request speaks for."""
    return number_in(header, "epoch"), text_in(header, "owner")


async def serve(data_dir: Path, host: str, port: int, *, fsync: bool, sync: Sync = os.fsync) -> None:
    """Run until SIGTERM or SIGINT. Prints one line `ballast-store listening <host:port>` when it is ready.

    Raises StoreError once something could not be flushed to the disk.
    """
    stopped = asyncio.Event()
    engine = StoreEngine(data_dir, fsync=fsync, sync=sync)
    server = StoreServer(engine, stopped.set)
    address = await server.start(host, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    print(f"ballast-store listening {address}", flush=True)
    log.info("store_started", address=address, data_dir=str(data_dir), fsync=fsync)
    await stopped.wait()
    await server.stop()
    if server.failure is not None:
        raise server.failure
    engine.close()


def main(argv: list[str] | None = None, sync: Sync = os.fsync) -> None:
    """The command line of `ballast store`. `sync` flushes a file to the disk."""
    parser = argparse.ArgumentParser(prog="ballast store", description="The shared durable segment store.")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the segments; created when missing")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = a free one, printed at start")
    parser.add_argument("--fsync", action="store_true", help="survive power loss too, not only the process's end")
    given = parser.parse_args(argv)
    asyncio.run(serve(given.data_dir, given.host, given.port, fsync=given.fsync, sync=sync))


if __name__ == "__main__":
    main()
