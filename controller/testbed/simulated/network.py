"""Connections between simulated processes: bytes that take time, arrive in order, and are lost with their connection.

The transports are asyncio's own interface, so brokers, store and clients run over them unchanged. A process that is
killed closes its connections, like the operating system does for it; what it had sent before still arrives.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from controller.testbed.simulated.world import World, delay_ms

if TYPE_CHECKING:
    from controller.testbed.simulated.virtual_loop import VirtualLoop

HOST, FIRST_PORT = "127.0.0.1", 20_000
WIRE_MS = (0.5, 15.0)  # of one frame, one way

Factory = Callable[[], asyncio.BaseProtocol]


class SimTransport(asyncio.Transport):
    """One end of a connection. `over`: nothing is sent or received here any more."""

    def __init__(self, network: SimNetwork, loop: VirtualLoop, protocol: asyncio.Protocol, draw: Callable[[], float]):
        super().__init__()
        self.over = False
        self.peer: SimTransport | None = None
        self.hangs_until_ms = 0.0  # what is sent before then arrives after it
        self.protocol = protocol
        self._network, self._loop, self._draw = network, loop, draw
        self._arrives_ms = 0.0  # when the newest bytes from here get to the peer
        self._read_paused, self._unread = False, bytearray()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send; does nothing once the connection is closed."""
        if not self.over and self.peer is not None:
            sent = bytes(data)
            if self._loop.on_write is not None:
                self._loop.on_write(sent)
            self._send(partial(self.peer.receive, sent))

    def is_closing(self) -> bool:
        """Whether `close` was called, or the peer is gone."""
        return self.over

    def close(self) -> None:
        """Close once everything written has arrived."""
        if not self.over and self.peer is not None:
            self._send(partial(self.peer.lose, None))
            self.lose(None)

    def abort(self) -> None:
        """Close at once."""
        self.close()

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._read_paused = True

    def resume_reading(self) -> None:
        """Pass on what was kept."""
        self._read_paused = False
        data, self._unread = bytes(self._unread), bytearray()
        if data:
            self._loop.call_soon(self._take, data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Nothing is known of a simulated connection."""
        return default

    # ------------------------------------------------------------ told by the network and the peer

    def connect_to(self, peer: SimTransport, not_before_ms: float) -> None:
        """The other end; what is sent arrives there after this time."""
        self.peer, self._arrives_ms = peer, not_before_ms

    def is_with(self, loop: VirtualLoop) -> bool:
        """Whether the process at the other end is this one."""
        return self.peer is not None and self.peer._loop is loop

    def receive(self, data: bytes) -> None:
        """Bytes have arrived at the machine."""
        if not self.over:
            self._loop.take_turn(self._take, (data,))

    def lose(self, error: Exception | None) -> None:
        """The connection is gone: tell the process in its next turn."""
        if not self.over:
            self.over = True
            self._network.forget(self._loop, self)
            self._loop.call_soon(self.protocol.connection_lost, error)

    def die(self) -> None:
        """The process was killed: the operating system closes the connection."""
        if not self.over and self.peer is not None:
            self.over = True
            self._send(partial(self.peer.lose, ConnectionResetError("the peer was killed")))

    def _take(self, data: bytes) -> None:
        if self.over:
            return
        if self._read_paused:
            self._unread += data
            return
        try:
            self.protocol.data_received(data)
        except Exception as error:  # asyncio closes the connection of a protocol that fails
            self._loop.call_exception_handler({"message": "data_received failed", "exception": error})
            self.close()
        else:
            if self.is_closing():  # as `FrameConnection` does with frames that it cannot read, which nobody sends here
                malformed = ValueError("it has closed the connection, as of a malformed frame")
                self._loop.call_exception_handler({"message": "data_received failed", "exception": malformed})

    def _send(self, action: Callable[[], None]) -> None:
        world = self._network.world
        at_ms = max(world.now_ms + self._draw(), self._arrives_ms, self.hangs_until_ms)
        self._arrives_ms = at_ms
        world.at(at_ms, action)


class SimServer:
    """What `loop.create_server` returns."""

    class _Socket:
        def __init__(self, port: int) -> None:
            self._port = port

        def getsockname(self) -> tuple[str, int]:
            """Host and port."""
            return HOST, self._port

    def __init__(self, network: SimNetwork, port: int) -> None:
        self.sockets = (self._Socket(port),)
        self._network, self._port = network, port

    def close(self) -> None:
        """Accept no more connections."""
        self._network.stop_listening(self._port)


class SimNetwork:
    """The network of one run. `slow` multiplies delays."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.slow = 1.0
        self._ports = FIRST_PORT
        self._listening: dict[int, tuple[VirtualLoop, Factory]] = {}
        self._open: dict[VirtualLoop, dict[SimTransport, None]] = {}
        self._made: Counter[tuple[str, int]] = Counter()

    def listen(self, loop: VirtualLoop, make: Factory, port: int) -> SimServer:
        """Accept connections at this port; 0: one that nobody has used. Raises OSError where another process does."""
        if port in self._listening:
            raise OSError(f"port {port} is in use")
        if port == 0:
            self._ports += 1
            port = self._ports
        self._listening[port] = (loop, make)
        return SimServer(self, port)

    def offer(self, loop: VirtualLoop, make: Factory, port: int) -> None:
        """Listen at this port, unless another process does already."""
        if port not in self._listening:
            self.listen(loop, make, port)

    def stop_listening(self, port: int) -> None:
        """Refuse connections at this port."""
        self._listening.pop(port, None)

    def connect(self, loop: VirtualLoop, make: Factory, port: int, result: asyncio.Future[Any]) -> None:
        """Connect a process to a port; the future gets transport and protocol, or OSError."""
        self._made[loop.name, port] += 1
        dice = self.world.dice(f"connection {loop.name} {port} {self._made[loop.name, port]}")

        def draw() -> float:
            return delay_ms(dice, *WIRE_MS) * self.slow

        def accept() -> None:
            found = self._listening.get(port)
            if found is None:
                self.world.after(draw(), partial(loop.take_turn, _fail, (result, port)))
                return
            back_ms = draw()
            server_loop, make_theirs = found
            ours = SimTransport(self, loop, make(), draw)  # type: ignore[arg-type]
            theirs = SimTransport(self, server_loop, make_theirs(), draw)  # type: ignore[arg-type]
            ours.connect_to(theirs, self.world.now_ms)
            theirs.connect_to(ours, self.world.now_ms + back_ms)
            self._begin(server_loop, theirs)
            self.world.after(back_ms, partial(loop.take_turn, self._finish, (loop, ours, result)))

        self.world.after(draw(), accept)

    def _begin(self, loop: VirtualLoop, transport: SimTransport) -> None:
        self._open.setdefault(loop, {})[transport] = None
        loop.take_turn(transport.protocol.connection_made, (transport,))

    def _finish(self, loop: VirtualLoop, transport: SimTransport, result: asyncio.Future[Any]) -> None:
        """In the turn of the process that connects."""
        self._open.setdefault(loop, {})[transport] = None
        if result.done():  # nobody waits any more
            transport.close()
            return
        transport.protocol.connection_made(transport)
        result.set_result((transport, transport.protocol))

    # ------------------------------------------------------------ what goes wrong

    def forget(self, loop: VirtualLoop, transport: SimTransport) -> None:
        """The connection is gone."""
        self._open.get(loop, {}).pop(transport, None)

    def kill(self, loop: VirtualLoop) -> None:
        """The process was killed: close what it had open."""
        self._listening = {port: found for port, found in self._listening.items() if found[0] is not loop}
        for transport in self._open.pop(loop, {}):
            transport.die()

    def reset(self, loop: VirtualLoop) -> int:
        """All connections of the process break now, with all that is under way; how many there were."""
        transports = list(self._open.get(loop, {}))
        for transport in transports:
            error = ConnectionResetError("the connection broke")
            if transport.peer is not None:
                transport.peer.lose(error)
            transport.lose(error)
        return len(transports)

    def hang(self, loop: VirtualLoop, ms: float, only_with: VirtualLoop | None = None) -> int:
        """What is sent over the connections of the process arrives only after so long; how many there are.
        `only_with`: those with this process."""
        transports = [one for one in self._open.get(loop, {}) if only_with is None or one.is_with(only_with)]
        for transport in transports:
            for end in (transport, transport.peer):
                if end is not None:
                    end.hangs_until_ms = self.world.now_ms + ms
        return len(transports)


def _fail(result: asyncio.Future[Any], port: int) -> None:
    if not result.done():
        result.set_exception(ConnectionRefusedError(f"nobody listens at port {port}"))
