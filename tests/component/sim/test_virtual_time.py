"""Virtual time: the event loop, actors and connections of simulated processes behave as real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.testbed.simulated.network import HOST, SimNetwork
from controller.testbed.simulated.virtual_loop import VirtualLoop
from controller.testbed.simulated.world import Actor, World

PORT = 7


class Peer(asyncio.Protocol):
    """Notes what happens to its end of a connection."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard.append(data.decode())

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append(f"lost: {exc}")


class Pair:
    """Two processes with a connection."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = SimNetwork(self.world)
        self.client, self.server = VirtualLoop(self.network, "client"), VirtualLoop(self.network, "server")
        self.there, self.here = Peer(), Peer()
        self.server.create_task(self.server.create_server(lambda: self.there, HOST, PORT))
        self.client.create_task(self.client.create_connection(lambda: self.here, HOST, PORT))
        self.world.run(100)

    def end(self) -> None:
        for loop in (self.client, self.server):
            loop.unwind()


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_timer_fires_when_the_process_has_its_time(pair: Pair) -> None:
    loop = VirtualLoop(pair.network, "fast", clock_rate=1.07)
    fired: list[float] = []
    due = loop.time() + 1.0
    loop.call_at(due, lambda: fired.append(loop.time()))
    cancelled = loop.call_later(0.5, lambda: fired.append(-1))
    cancelled.cancel()
    pair.world.run(930)
    assert fired == []
    pair.world.run(10)
    assert fired == [pytest.approx(due)]
    assert fired[0] >= due
    loop.unwind()


def test_after_a_pause_what_has_arrived_comes_before_timers(pair: Pair) -> None:
    order: list[str] = []
    pair.there.data_received = lambda data: order.append(data.decode())  # type: ignore[method-assign]
    pair.server.call_later(0.2, order.append, "timer")
    late = pair.server.call_later(0.3, order.append, "cancelled")
    pair.server.call_later(0.1, late.cancel)
    pair.server.paused_until_ms = pair.world.now_ms + 1_000
    pair.here.transport.write(b"data")
    pair.world.run(900)
    assert order == []
    pair.world.run(200)
    assert order == ["data", "timer"]
    pair.end()


def test_bytes_arrive_in_order_and_before_the_end(pair: Pair) -> None:
    for number in range(20):
        pair.here.transport.write(str(number).encode())
    pair.here.transport.close()
    pair.here.transport.write(b"never sent")
    pair.world.run(1_000)
    assert pair.there.heard == [*map(str, range(20)), "lost: None"]
    assert pair.here.heard == ["lost: None"]
    pair.end()


def test_a_killed_process_has_sent_what_it_had_sent(pair: Pair) -> None:
    pair.there.transport.write(b"last words")
    pair.server.halt()
    pair.network.kill(pair.server)
    pair.world.run(1_000)
    assert pair.here.heard == ["last words", "lost: the peer was killed"]
    assert refusal(pair) == f"nobody listens at port {PORT}"
    pair.end()


def test_a_connection_that_breaks_loses_what_is_under_way(pair: Pair) -> None:
    pair.here.transport.write(b"under way")
    assert pair.network.reset(pair.client) == 1
    pair.world.run(1_000)
    assert pair.there.heard == pair.here.heard == ["lost: the connection broke"]
    pair.end()


def test_a_connection_that_hangs_loses_nothing(pair: Pair) -> None:
    assert pair.network.hang(pair.client, 5_000) == 1
    pair.here.transport.write(b"late")
    pair.world.run(4_900)
    assert pair.there.heard == []
    pair.world.run(200)
    assert pair.there.heard == ["late"]
    pair.end()


def refusal(pair: Pair) -> str:
    """Why a connection to the server's port is refused."""
    refused: list[str] = []

    async def connect() -> None:
        try:
            await pair.client.create_connection(Peer, HOST, PORT)
        except OSError as error:
            refused.append(str(error))

    pair.client.create_task(connect())
    pair.world.run(1_000)
    return refused[0]


def run_actor(work: Callable[[Actor], None], for_ms: float) -> Actor:
    world = World(1)
    actor = world.act(work)
    world.run(for_ms)
    return actor


def test_an_actor_waits_no_longer_than_it_must() -> None:
    times: list[float] = []

    def work(actor: Actor) -> None:
        began_ms = actor.world.now_ms
        actor.wait(lambda: actor.world.now_ms >= began_ms + 250)
        times.append(actor.world.now_ms - began_ms)
        actor.wait(lambda: False, most_ms=1_000)
        times.append(actor.world.now_ms - began_ms)

    assert run_actor(work, 5_000).ended
    assert times == [300, 1_300]


def test_a_killed_actor_does_nothing_more() -> None:
    done: list[str] = []

    def work(actor: Actor) -> None:
        try:
            actor.sleep(1_000)
        finally:
            done.append("cleaned up")
        done.append("never")

    actor = run_actor(work, 500)
    actor.kill()
    assert (actor.ended, actor.failure, done) == (True, None, ["cleaned up"])
