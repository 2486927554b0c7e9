"""Behaviours that the source documents describe (docs/coverage.md) and that no other test shows on its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves, sources, splits
from controller.agent.cluster.metrics import ClusterMetrics
from controller.agent.metrics import AgentMetrics
from controller.agent.reports.reporter import Reporter
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.poll import Polled
from controller.domain.decision import RoundResult
from controller.domain.ids import RING_END, Bundle, Session, partition_names, topic_hash
from controller.domain.load import RESOURCES
from controller.domain.ownership import State
from controller.domain.ring import locate
from controller.domain.settings.policy import ResourceWeights, SplitSettings
from controller.process.metrics import exposition
from controller.service.metrics import ControlMetrics
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import StepDriver

FULL = 0.95


def deciding(strategy: str, built: ClusterBuilder) -> ClusterBuilder:
    built.settings = replace(built.settings, strategy=strategy)
    return built


def one_full(resource: str) -> ClusterBuilder:
    """b0 has used up 95 % of one resource, its bundles' doing; b1 nothing of it. CPU is low on both."""
    built = cluster()
    for name, used in (("b0", FULL), ("b1", 0.0)):
        totals = {"throughput_in": used * 50e6, "throughput_out": used * 50e6, "storage_bytes": used * 1e9}
        built.broker(name, cpu=20, **{f"{resource}_usage": used * 100e6, f"{resource}_limit": 100e6}, **totals)
    if resource == "cpu":
        built.brokers["b0"] |= {"cpu_usage": 95.0, "cpu_limit": 100.0}
        built.brokers["b1"] |= {"cpu_usage": 0.0, "cpu_limit": 100.0}
    for _ in range(10):
        size = {"throughput_in": FULL * 5e6, "throughput_out": FULL * 5e6, "storage_bytes": FULL * 1e8}
        built.bundle("b0", cpu=2, **size)
    return built


@pytest.mark.covers("report-disk-io", "any-resource", "resource-weights")
@pytest.mark.parametrize("resource", RESOURCES)
def test_each_resource_makes_a_source_where_it_has_a_weight(resource: str) -> None:
    alone = dict.fromkeys(RESOURCES, 0.0)
    for weight, expected in ((1.0, ["b0"]), (0.0, [])):
        built = one_full(resource).with_settings(weights={**alone, "cpu": 1e-6, resource: weight})
        assert sources(built.second_round()) == expected


@pytest.mark.covers("memory-signal")
def test_heap_counts_for_nothing_unless_it_is_given_a_weight() -> None:
    """Both brokers do the same work; what b0's bundles store and cache fills its heap."""
    assert (ResourceWeights().memory, ResourceWeights().direct_memory) == (0.0, 0.0)
    for strategy in ("steady", "headroom"):
        for weight, expected in ((0.0, set()), (1.0, {"b0"})):
            built = deciding(strategy, loads(20, 20)).with_settings(weights={"memory": weight})
            built.brokers["b0"] |= {"memory_usage": FULL * 1e9, "memory_limit": 1e9, "storage_bytes": FULL * 1e9}
            built.brokers["b1"] |= {"memory_usage": 0.0, "memory_limit": 1e9}
            for bundle in built.bundles[:10]:
                bundle["storage_bytes"] = FULL * 1e8
            assert {m.source for m in moves(built.second_round())} == expected


@pytest.mark.covers("value-unacked", "report-unacked", "balancing-costs-little")
def test_unacknowledged_messages_and_backlog_make_a_bundle_dearer_to_move() -> None:
    for column in ("unacked", "backlog_bytes"):
        built = deciding("steady", cluster().broker("a", cpu=80).broker("b", cpu=20))
        for held in (900.0, 3.0):
            built.bundle("a", cpu=30, **{column: held})
        light = built.bundles[-1]["bundle"]
        (move,) = moves(built.bundle("a", cpu=20, **{column: 900.0}).bundle("b", cpu=20).round())
        assert move.bundle == light


@pytest.mark.covers("any-resource", "memory-signal")
@pytest.mark.parametrize("resource", ["cpu", "memory", "bandwidth_in", "bandwidth_out"])
def test_simple_sheds_whatever_resource_reaches_the_threshold(resource: str) -> None:
    assert {m.source for m in moves(deciding("simple", one_full(resource)).round())} == {"b0"}


@pytest.mark.covers("shed-part", "busiest-first", "manager-simple")
def test_the_example_of_95_percent_sheds_15_percent_of_the_traffic_from_the_busiest_bundle_on() -> None:
    """(95 - 85) + 5 = 15 %: the bundles with 9 and 8 % of the traffic are together more than that, 9 alone is not."""
    built = deciding("simple", cluster().broker("hot", cpu=95).broker("idle", cpu=5))
    for percent in (5, 9, 8, 7, 6, 5, 5, 5, 5, 5):
        built.bundle("hot", cpu=0.95 * percent)
    built.bundle("idle", cpu=2).bundle("idle", cpu=3)
    gone = [str(move.bundle) for move in moves(built.round())]
    assert gone == [str(built.bundles[at]["bundle"]) for at in (1, 2)]


@pytest.mark.covers("idle-broker-filled", "limits-alone", "absolute-or-relative")
@pytest.mark.parametrize(
    ("strategy", "filled"),
    [
        ("steady", True),
        ("headroom", False),
        ("overload", False),
        ("threshold", False),
        ("simple", False),
        ("weighted", False),
    ],
)
def test_an_idle_broker_alone_makes_the_default_move_and_strategies_with_limits_not(
    strategy: str, filled: bool
) -> None:
    built, made = deciding(strategy, loads(50, 50, 50, 50, 50, 0)), []
    for _ in range(6):
        made += moves(built.round())
        built.later()
    assert ({move.target for move in made} == {"b5"}) is filled
    assert bool(made) is filled


@pytest.mark.covers("namespace-is-the-unit", "namespace-unload")
def test_a_namespace_is_unloaded_bundle_by_bundle_and_every_bundle_is_assigned_anew() -> None:
    driver = StepDriver()
    a, _ = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=4)
    driver.command("create_namespace", namespace="t/other", bundles=1)
    other = Bundle("t/other", 0, RING_END)
    held = [*driver.state.namespaces["t/n"], other]
    driver.command("drain", broker="b:1")
    for bundle in held:
        driver.own(a, bundle)
    driver.command("undrain", broker="b:1")
    driver.command("unload_namespace", namespace="t/n")
    assert {driver.of(bundle).state for bundle in held[:4]} == {State.RELEASING}
    for bundle in held[:4]:
        driver.say(a, "released", bundle)
    after = [driver.of(bundle) for bundle in held[:4]]
    assert {record.state for record in after} == {State.ASSIGNING}
    assert {record.to.broker for record in after if record.to} == {"a:1", "b:1"}, "spread by what each holds now"
    assert (driver.of(other).state, driver.of(other).by) == (State.OWNED, a)


@pytest.mark.covers("partitions-apart")
def test_partitions_of_a_topic_lie_in_several_bundles_and_on_several_brokers() -> None:
    driver = StepDriver()
    for name in "abcd":
        driver.join(f"{name}:1")
    driver.command("create_namespace", namespace="t/n", bundles=16)
    topic = "persistent://t/n/orders"
    driver.command("create_topic", topic=topic, partitions=10)
    bundles = {locate(driver.state.namespaces["t/n"], topic_hash(name)) for name in partition_names(topic, 10)}
    for bundle in sorted(bundles):
        driver.lookup(bundle)
    assert len(bundles) == 4, "partitions differ in their last digits alone, and so do their hashes"
    assert {record.to.broker for b in bundles if (record := driver.of(b)).to} == {"a:1", "b:1", "c:1", "d:1"}


@pytest.mark.covers("reports-after-move")
def test_a_bundle_that_came_is_reported_without_waiting_for_the_next_report() -> None:
    class Sent:
        def __init__(self) -> None:
            self.records: list[Any] = []
            self.more = asyncio.Event()

        def send(self, topic: str, value: Any, key: str | None = None) -> Future[tuple[int, int]]:
            self.records.append(value)
            self.more.set()
            done: Future[tuple[int, int]] = Future()
            done.set_result((0, 0))
            return done

    async def scenario() -> list[Any]:
        runtime, sent, moved = MemoryRuntime(MemoryFences()), Sent(), asyncio.Event()
        reporter = Reporter(runtime, sent, "load-reports", top_k=5, wall_ms=lambda: 9, metrics=AgentMetrics())
        session = Session("b:1", 1, "n", 1)
        running = asyncio.create_task(reporter.run(3_600_000, lambda: session, moved))
        await asyncio.wait_for(sent.more.wait(), 30)
        sent.more.clear()
        await runtime.serve(Bundle("t/n", 0, RING_END), 1)
        moved.set()
        await asyncio.wait_for(sent.more.wait(), 30)
        running.cancel()
        return sent.records

    before, after = asyncio.run(scenario())
    assert (before["totals"]["bundles"], after["totals"]["bundles"]) == (0, 1)


@pytest.mark.covers("metrics", "decision-breakdown")
def test_metrics_count_what_was_journaled_and_what_was_refused_by_reason() -> None:
    registry = CollectorRegistry()
    metrics, driver = ControlMetrics(registry), StepDriver(mode="shadow")
    a, _ = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    whole = Bundle("t/n", 0, RING_END)
    driver.own(a, whole)
    driver.say(a, "split_proposed", whole)
    driver.command("unload_bundle", bundle=str(whole), to="b:1")
    metrics.count_committed(driver.journal)
    metrics.show_state(driver.state, driver.watch)
    shown = exposition(registry).decode().splitlines()
    kinds = Counter(entry.kind.value for entry in driver.journal)
    assert all(f'ballast_journal_entries_total{{kind="{kind}"}} {n}.0' in shown for kind, n in kinds.items())
    assert 'ballast_control_refused{reason="301_shadow_mode"} 1.0' in shown
    assert 'ballast_bundles{state="transferring"} 1.0' in shown
    assert "ballast_brokers_alive 2.0" in shown


@pytest.mark.covers("value-traffic", "value-share", "busiest-first")
@pytest.mark.parametrize("less", [{"throughput_out": 1e6}, {"topics": 25.0}], ids=["traffic", "part of the limit"])
def test_the_walkthrough_s_method_sends_on_the_bundle_that_is_worth_less(less: dict[str, float]) -> None:
    """Each of these bundles alone would bring the broker back to 100 topics; only the last has less of one thing."""
    limits = {"max_topics_per_broker": 100, "cpu_threshold": None}
    built = deciding("weighted", cluster()).with_settings(weighted=limits)
    built.broker("hot", cpu=30, topics=120.0, throughput_in=12e6, throughput_out=12e6).broker("idle", cpu=30)
    plain = {"topics": 30.0, "throughput_in": 3e6, "throughput_out": 3e6, "sessions": 10.0, "unacked": 10.0}
    for change in ({}, {}, less):
        built.bundle("hot", cpu=5, **{**plain, **change})
    (move,) = moves(built.second_round())
    assert (move.bundle, move.target) == (built.bundles[2]["bundle"], "idle")


@pytest.mark.covers("split-example", "split-size", "split-half-moves", "bundle-is-a-range")
def test_the_bundle_of_a_hot_topic_is_split_in_the_middle_and_its_upper_half_goes_to_broker_2() -> None:
    """The bundle article's example, with the range that Pulsar has: three brokers with a bundle each, one grows."""
    driver = StepDriver()
    brokers = [driver.join(f"broker-{n}:1") for n in (1, 2, 3)]
    held = [Bundle(f"my-tenant/my-namespace-{n}", 0, RING_END) for n in (1, 2, 3)]
    for session, bundle in zip(brokers, held, strict=True):
        driver.command("create_namespace", namespace=bundle.namespace, bundles=1)
        driver.own(session, bundle)
    grown = cluster(split=SplitSettings(max_storage_bytes=10**9))
    for session in brokers:
        grown.broker(session.broker, cpu=20)
    grown.bundle(brokers[0].broker, name=str(held[0]), epoch=driver.of(held[0]).epoch, storage_bytes=2e9)
    (split,) = splits(grown.round())
    driver.round(RoundResult("r1", 60_000, driver.state.seq, "steady", (split,), (), {}, "hash"))
    driver.say(brokers[0], "split_done", held[0])
    lower, upper = held[0].split_at(0x7FFFFFFF)
    assert driver.state.namespaces[held[0].namespace] == (lower, upper)
    assert (driver.of(held[0]).state, driver.of(lower).by) == (State.RETIRED, brokers[0])
    assert driver.of(upper).to == brokers[1]


def test_metrics_tell_how_orders_end_and_how_fresh_observations_are() -> None:
    registry = CollectorRegistry()
    control, driver = ControlMetrics(registry), observed_driver()
    for bundle, outcome, took_ms in ((BUNDLES[0], "moved", 700), (BUNDLES[3], "stayed", 20_000)):
        driver.command("unload_bundle", bundle=str(bundle), to="b:1")
        driver.end_order(bundle, outcome, took_ms=took_ms, owner="b:1" if outcome == "moved" else "a:1")
    driver.command("unload_bundle", bundle=str(BUNDLES[1]), to="c:1")
    driver.tell("a:1", "fact", key="suspect:c:1", value={"why": "no answer"})
    control.count_committed(driver.journal)
    control.show_state(driver.state, driver.watch)

    now_s = 100.0
    agent = ClusterMetrics(registry, lambda: now_s)
    agent.note_polled(Polled("a:1", 1, owned={}))
    agent.note_polled(Polled("b:1", 1, failure=CallFailed(Outcome.TIMED_OUT, "b:1")))
    now_s = 105.0
    agent.note_poll_ended(["a:1", "b:1"], {"b:1"})
    shown = exposition(registry).decode().splitlines()
    assert "ballast_agent_observation_age_seconds 5.0" in shown, "one broker did not tell what it owns"
    assert 'ballast_agent_polls_failed_total{outcome="timed_out"} 1.0' in shown
    assert "ballast_agent_suspect_brokers 1.0" in shown
    for broker in ("a:1", "b:1"):
        agent.note_polled(Polled(broker, 1, owned={}))
    agent.note_poll_ended(["a:1", "b:1"], set())
    now_s = 107.5
    shown = exposition(registry).decode().splitlines()
    assert "ballast_agent_observation_age_seconds 2.5" in shown
    assert "ballast_orders_open 1.0" in shown
    assert "ballast_suspect_brokers 1.0" in shown
    assert 'ballast_orders_ended_total{outcome="moved"} 1.0' in shown
    assert 'ballast_orders_ended_total{outcome="stayed"} 1.0' in shown
    assert 'ballast_order_seconds_bucket{le="1.0"} 1.0' in shown
