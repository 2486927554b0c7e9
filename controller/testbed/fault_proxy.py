"""A TCP proxy on the loopback that tests can cut and heal, as a stand-in for a failing network.

While cut, it forwards nothing, in one direction or in both, and closes nothing, like a network that drops packets. Once
healed, it delivers what was in flight. New connections are accepted, and wait where they cannot reach the target. The
proxy runs in its own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from types import TracebackType

READ_BYTES = 64 * 1024


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class CuttableProxy:
    """Forwards from `port` to `target_port`, both on 127.0.0.1. Use it as a context manager."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._there, self._back = asyncio.Event(), asyncio.Event()  # set: what goes to the target, or comes, passes
        self._there.set()
        self._back.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{self.port}", daemon=True)

    def __enter__(self) -> CuttableProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def cut(self, there: bool = True, back: bool = True) -> None:
        """Stop forwarding what goes to the target, what comes back, or both."""
        for way, chosen in ((self._there, there), (self._back, back)):
            if chosen:
                self._loop.call_soon_threadsafe(way.clear)

    def heal(self) -> None:
        """Forward again, beginning with what was held back."""
        for way in (self._there, self._back):
            self._loop.call_soon_threadsafe(way.set)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connect, sock=self._socket))
        self._loop.run_forever()
        server.close()
        for pump in self._pumps:
            pump.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._pumps, return_exceptions=True))
        self._loop.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._there.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.close()
            return
        for source, sink, way in ((reader, far_writer, self._there), (far_reader, writer, self._back)):
            task = self._loop.create_task(self._pump(source, sink, way))
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(READ_BYTES):
                await way.wait()
                sink.write(data)
                await sink.drain()
        await way.wait()
        sink.close()
