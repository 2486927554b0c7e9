"""The configured capacity really throttles: throughput stays at the limit, the wait grows, order is kept."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.brokers.reference.capacity import Capacity, Throttle
from controller.brokers.reference.client.consumer import Consumer
from controller.brokers.reference.client.endpoint import Refused
from controller.brokers.reference.runtime import REFUSED_MAX_BUNDLES, REFUSED_MAX_TOPICS, ReferenceBroker
from controller.domain.errors import BadRecord
from controller.domain.ids import RING_END, Bundle, topic_hash
from tests.unit.brokers.reference_cluster import HIGH, LOW, NS, WHOLE, cluster, topic, until


class Clock:
    """A clock that only the test moves, with its timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._cancelled: set[int] = set()
        self._count = 0

    def call_at(self, when: float, call: Callable[[], None]) -> Clock.Handle:
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, call))
        return Clock.Handle(self, self._count)

    def run_to(self, end: float) -> None:
        while self._timers and self._timers[0][0] <= end:
            when, number, call = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if number not in self._cancelled:
                call()
        self.now = end

    class Handle:
        def __init__(self, clock: Clock, number: int) -> None:
            self._clock, self._number = clock, number

        def cancel(self) -> None:
            self._clock._cancelled.add(self._number)


def throttle(**limits: float) -> tuple[Throttle, Clock]:
    clock = Clock()
    unlimited = {
        "cpu_pct": 0.0,
        "bandwidth_in_bytes_per_s": 0.0,
        "bandwidth_out_bytes_per_s": 0.0,
        "cpu_us_per_kib": 0.0,
    }
    return Throttle(Capacity(**{**unlimited, **limits}), lambda: clock.now, clock.call_at), clock


@pytest.mark.parametrize(
    ("limits", "per_s"),
    [
        ({"cpu_pct": 50.0, "cpu_us_per_message": 1000.0}, 500),
        ({"cpu_pct": 100.0, "cpu_us_per_message": 0.0, "cpu_us_per_kib": 1000.0}, 1000),
        ({"bandwidth_in_bytes_per_s": 256 * 1024.0}, 256),
        ({"msg_per_s": 300.0}, 300),
    ],
)
def test_each_limit_bounds_throughput(limits: dict[str, float], per_s: int) -> None:
    throttled, clock = throttle(**limits)
    done: list[int] = []
    for i in range(3000):
        throttled.inward("t", 1, 1024, lambda: True, lambda i=i: done.append(i))  # type: ignore[misc]
    clock.run_to(2.0)
    burst = per_s * 0.02 + 2
    assert 2 * per_s <= len(done) <= 2 * per_s + burst
    assert done == list(range(len(done)))


def test_the_wait_grows_beyond_capacity_and_is_reported() -> None:
    throttled, clock = throttle(cpu_pct=100.0, cpu_us_per_message=1000.0)
    waits = []
    for second in range(4):
        for _ in range(500 if second == 0 else 1500):
            throttled.inward("t", 1, 100, lambda: True, lambda: None)
        clock.run_to(second + 1.0)
        sample = throttled.sample()
        waits.append(sample.mean_queue_ms)
        assert sample.cpu_s <= 1.03
    assert waits[1] > waits[0]
    assert waits[2] > waits[1] + 200
    assert waits[3] > waits[2] + 200


def test_below_capacity_nothing_waits() -> None:
    throttled, clock = throttle(cpu_pct=100.0, cpu_us_per_message=1000.0)
    for i in range(500):
        clock.run_to(i * 0.002)
        throttled.inward("t", 1, 100, lambda: True, lambda: None)
    sample = throttled.sample()
    assert sample.mean_queue_ms == 0.0
    assert sample.cpu_s == pytest.approx(0.5)


def test_work_of_a_bundle_that_left_costs_nothing() -> None:
    throttled, clock = throttle(cpu_pct=100.0, cpu_us_per_message=1000.0)
    here, done = True, []
    for _ in range(5000):
        throttled.inward("t", 1, 100, lambda: here, lambda: None)
    throttled.inward("t", 1, 100, lambda: True, lambda: done.append(clock.now))
    clock.run_to(0.1)
    here = False
    clock.run_to(0.2)
    assert done, "the other bundle's work is not delayed by what was queued before it and moved away"
    assert done[0] <= 0.11


def test_directions_share_the_cpu_but_not_the_bandwidth() -> None:
    throttled, clock = throttle(bandwidth_in_bytes_per_s=1000.0, bandwidth_out_bytes_per_s=100_000.0)
    done: list[str] = []
    for _ in range(100):
        throttled.inward("t", 1, 1000, lambda: True, lambda: done.append("in"))
        throttled.outward("t", 1, 1000, lambda: True, lambda: done.append("out"))
    clock.run_to(1.0)
    assert done.count("out") == 100
    assert done.count("in") <= 3


@pytest.mark.parametrize("backlog", ["outward", "inward"])
def test_a_backlog_in_one_direction_does_not_starve_the_other(backlog: str) -> None:
    """After a hand-over consumers read their backlog; producers of the same bundle must not wait for its end."""
    throttled, clock = throttle(cpu_pct=100.0, cpu_us_per_message=1000.0)
    big = throttled.outward if backlog == "outward" else throttled.inward
    small = throttled.inward if backlog == "outward" else throttled.outward
    for i in range(30):
        big(f"t{i % 3}", 100, 10_000, lambda: True, lambda: None)
    waits: list[float] = []
    for i in range(40):
        clock.run_to(0.01 + i * 0.05)
        small("t0", 1, 100, lambda: True, lambda began=clock.now: waits.append(clock.now - began))  # type: ignore[misc]
    clock.run_to(5.0)
    assert len(waits) == 40
    assert max(waits) <= 0.11, "the work that is being served, and no more"


def test_one_delivery_is_worth_a_burst_at_most() -> None:
    assert throttle(cpu_pct=100.0, cpu_us_per_message=1000.0)[0].turn_messages == 20
    assert throttle(cpu_pct=100.0, cpu_us_per_message=50_000.0)[0].turn_messages == 1
    assert throttle(cpu_pct=200.0, cpu_us_per_message=100.0)[0].turn_messages == 100
    assert throttle(cpu_pct=0.0)[0].turn_messages == 100


def test_both_directions_overloaded_share_the_cpu_by_halves() -> None:
    throttled, clock = throttle(cpu_pct=100.0, cpu_us_per_message=1000.0)
    done = {"in": 0, "out": 0}

    def count(direction: str, messages: int) -> Callable[[], None]:
        def add() -> None:
            done[direction] += messages

        return add

    for _ in range(3000):
        throttled.inward("a", 1, 100, lambda: True, count("in", 1))
    for _ in range(30):
        throttled.outward("b", 100, 100, lambda: True, count("out", 100))
    clock.run_to(2.0)
    assert done["in"] == pytest.approx(1000, abs=110)
    assert done["out"] == pytest.approx(1000, abs=110)


@pytest.mark.covers("report-cpu", "report-network", "report-counts", "report-clients")
def test_a_broker_reports_what_it_served_and_is_bounded_by_its_capacity(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path, brokers=0) as here:
            limits = Capacity(cpu_pct=50.0, cpu_us_per_message=1000.0, cpu_us_per_kib=0.0)  # 500 messages/s
            broker = await here.add_broker("a", limits)
            await here.give(WHOLE, "a")
            producer = await here.producer(topic(0), "p", window=10_000)
            consumer = await here.consumer(topic(0), "s", "c")
            broker.sample()
            for _ in range(400):
                producer.send_now("k", bytes(1000))
            await producer.flush()
            await until(lambda: consumer.delivered == 400 and not consumer.unconfirmed)
            sample = broker.sample()
            usage, limit = sample.resources["cpu"]
            assert limit == 50.0
            assert 0 < usage <= 50.0 * 1.3
            assert sample.rpc_queue_ms > 0
            stats = sample.bundles[WHOLE]
            assert 0 < stats.msg_rate_in + stats.msg_rate_out <= 500 * 1.3  # one batch's head start each way
            assert stats.msg_rate_in == stats.msg_rate_out
            assert stats.throughput_in > 1000 * stats.msg_rate_in
            assert (stats.topics, stats.producers, stats.consumers, stats.sessions) == (1, 1, 1, 2)
            assert (stats.unacked, stats.backlog_bytes) == (0, 0)
            assert stats.storage_bytes > 400_000
            assert sample.metadata_latency_ms > 0
            quiet = broker.sample()
            assert quiet.resources["cpu"][0] == 0.0
            assert quiet.bundles[WHOLE].msg_rate_in == 0.0

    asyncio.run(scenario())


@pytest.mark.covers("report-counts", "report-unacked")
def test_backlog_unacked_and_partitions_are_reported_also_for_topics_not_opened_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            names = [f"persistent://{NS}/p-partition-{i}" for i in range(2)]
            for name in names:
                producer = await here.producer(name, "p")
                consumer = await here.consumer(name, "s", "c", auto_ack=False)
                for _ in range(10):
                    producer.send_now("k", bytes(100))
                await producer.flush()
                await until(lambda consumer=consumer: consumer.delivered == 10)  # type: ignore[misc]
            open_here = here.brokers["a"].sample().bundles[WHOLE]
            assert (open_here.unacked, open_here.partitions, open_here.topics) == (20, 2, 2)
            assert open_here.partitioned_topics == [f"persistent://{NS}/p"]
            assert open_here.backlog_bytes > 2000
            for client in here.clients:
                await client.stop()
            await here.transfer(WHOLE, "a", "b")
            unopened = here.brokers["b"].sample().bundles[WHOLE]
            assert (unopened.unacked, unopened.partitions, unopened.producers) == (0, 2, 0)
            assert unopened.backlog_bytes > 2000
            assert unopened.storage_bytes >= unopened.backlog_bytes

    asyncio.run(scenario())


@pytest.mark.covers("target-agrees")
def test_refusals_name_their_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path, brokers=0) as here:
            broker = ReferenceBroker("a", here.store, may_serve=lambda: True, max_bundles=2, max_topics=3)
            await broker.start(here.directory)
            here.brokers["a"] = broker
            assert broker.refuses(LOW) is None
            await here.give(LOW, "a")
            await broker.hold(HIGH)
            assert broker.refuses(Bundle("other/ns", 0, RING_END)) == REFUSED_MAX_BUNDLES
            assert broker.refuses(HIGH) is None, "what is on its way was accepted already"
            await broker.drop(HIGH)
            for i in range(20):
                if LOW.contains(topic_hash(topic(i))):
                    await here.producer(topic(i), "p")
            assert broker.refuses(HIGH) == REFUSED_MAX_TOPICS
            broker.refuse_all("draining")
            assert broker.refuses(HIGH) == "draining"

    asyncio.run(scenario())


def test_clients_that_break_the_rules_hurt_only_themselves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            good = await here.producer(topic(0), "p")
            await here.consumer(topic(0), "s", "c")
            with pytest.raises(BadRecord, match="topic_name"):
                await here.producer("no-topic", "p")
            with pytest.raises(Refused, match="bad request"):
                await here.consumer(topic(0), "s", "x", permits="many")
            host, _, port = here.brokers["a"].data_address.rpartition(":")
            for frame in (
                b"\0\0\0\x09\0\0\0\x05hello",
                b'\0\0\0\x1c\0\0\0\x18{"op":"send","ref":"x"}  ',
                b'\0\0\0\x11\0\0\0\x0d{"op":"ping"}' + b"\xff" * 8,
            ):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(frame)
                writer.write_eof()
                await reader.read()
                writer.close()
            second = asyncio.create_task(here.consumer(topic(0), "s", "other"))
            await until(lambda: here.clients[-1].name == "other" and here.clients[-1].refused > 0)
            assert not second.done(), "a second exclusive consumer waits until the first has left"
            await next(c for c in here.clients if c.topic == topic(0) and isinstance(c, Consumer)).stop()
            await second
            good.send_now("k", b"x")
            await good.flush()

    asyncio.run(scenario())


def test_a_delivery_that_waits_leaves_out_what_is_acknowledged_meanwhile(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, brokers=1) as c:
            await c.give(WHOLE, "a")
            producer = await c.producer(topic(1), "p")
            for number in range(20):
                producer.send_now("k", b"%d" % number)
            await producer.flush()
            await c.add_broker("slow", Capacity(cpu_pct=100.0, cpu_us_per_message=100_000.0, burst_ms=500))
            await c.transfer(WHOLE, "a", "slow")
            events: list[tuple[str, int]] = []
            await c.consumer(topic(1), "first", "x")  # its batch uses the CPU for 2 s
            second = await c.consumer(
                topic(1),
                "second",
                "y",
                on_delivered=lambda _, messages, at_ms: events.extend(("delivered", offset) for offset, _ in messages),
                on_confirmed=lambda _, ranges, at_ms: events.extend(("confirmed", high) for _, high in ranges),
            )
            second.ack([(0, 15)])
            await until(lambda: ("confirmed", 15) in events)
            producer.send_now("k", b"20")
            await until(lambda: ("delivered", 20) in events)
            assert [offset for what, offset in events if what == "delivered"] == [15, 16, 17, 18, 19, 20]

    asyncio.run(run())


def test_a_topics_backlog_does_not_hold_up_another_topic() -> None:
    throttled, clock = throttle(cpu_pct=100.0, cpu_us_per_message=10_000.0)
    done: list[str] = []
    for name, count in (("long", 200), ("short", 3)):
        for i in range(count):
            throttled.inward(name, 1, 100, lambda: True, lambda said=f"{name}{i}": done.append(said))  # type: ignore[misc]
    clock.run_to(0.5)
    assert [said for said in done if said.startswith("short")] == ["short0", "short1", "short2"]
    long = [said for said in done if said.startswith("long")]
    assert long == [f"long{i}" for i in range(len(long))], "a topic's own order stays"
