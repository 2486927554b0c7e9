"""Load reports, split proposals and host figures: the parts of the reporter that are pure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.agent.metrics import AgentMetrics
from controller.agent.options import AgentOptions
from controller.agent.reports.report import build_report, top_bundles, with_bandwidth
from controller.agent.reports.reporter import Reporter
from controller.agent.reports.split_boundary import boundary_by_load
from controller.agent.reports.split_proposals import AGAIN_AFTER, SplitWatch
from controller.brokers.host_load import HostLoad, cpu_limit_pct, nic_limit_bytes_per_s
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.brokers.runtime import BundleStats, LoadSample
from controller.cli.run.agent import make_split_watch, parse_capacity
from controller.cli.run.agent_wiring import options_of
from controller.config.load import load_settings
from controller.domain.decision import Reason
from controller.domain.errors import ConfigError
from controller.domain.ids import RING_END, Bundle, Session, topic_hash
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.ring import initial_bundles

ME = Session("b:1", 1, "n", 1)
WHOLE = Bundle("t/n", 0, RING_END)


def _sample(rates: list[float]) -> LoadSample:
    bundles = initial_bundles("t/n", len(rates)) if rates else []
    stats = {b: BundleStats(msg_rate_in=r, throughput_in=10 * r, topics=2) for b, r in zip(bundles, rates, strict=True)}
    return LoadSample({"cpu": (30.0, 200.0)}, stats)


@pytest.mark.covers("report-counts", "report-clients", "top-k-bundles")
@given(rates=st.lists(st.integers(0, 1_000_000).map(float), max_size=40), k=st.integers(1, 20))
def test_top_bundles_and_tail_give_the_totals(rates: list[float], k: int) -> None:
    report = build_report(ME, 1, 0, _sample(rates), {}, k)
    assert len(report["bundles"]) == min(k, len(rates))
    for name in BUNDLE_FIELDS:
        tail = report["tail"][name] if report["tail"] else 0
        assert sum(row[name] for row in report["bundles"]) + tail == report["totals"][name]
    tail_bundles = report["tail"]["bundles"] if report["tail"] else 0
    assert len(report["bundles"]) + tail_bundles == report["totals"]["bundles"] == len(rates)


@pytest.mark.covers("top-k-bundles")
def test_busiest_bundles_are_listed() -> None:
    top, rest = top_bundles(_sample([1, 500, 2, 400, 3]).bundles, 2)
    bundles = initial_bundles("t/n", 5)
    assert top == [bundles[1], bundles[3]]
    assert len(rest) == 3


@pytest.mark.covers("top-k-bundles")
def test_bundle_that_is_large_in_one_respect_only_is_listed() -> None:
    sample = _sample([100, 100, 100, 0])
    quiet = initial_bundles("t/n", 4)[3]
    sample.bundles[quiet].backlog_bytes = 1 << 30
    assert top_bundles(sample.bundles, 1)[0] == [quiet]


def test_missing_resources_are_sent_as_unknown() -> None:
    report = build_report(ME, 7, 0, _sample([]), {"cpu": (30.0, 200.0)}, 5)
    assert list(report["resources"]) == list(RESOURCES)
    assert report["resources"]["cpu"] == {"usage": 30.0, "limit": 200.0}
    assert report["resources"]["disk_io"] == {"usage": -1.0, "limit": -1.0}
    assert (report["sequence"], report["tail"]) == (7, None)


@pytest.mark.covers("report-network")
def test_network_card_is_overridden_and_throughput_stands_in_for_an_unknown_one() -> None:
    sample = _sample([100.0, 200.0])
    unknown = {"bandwidth_in": (0.0, -1000.0), "bandwidth_out": (5.0, 1e9)}
    assert with_bandwidth(unknown, sample, False, None)["bandwidth_in"] == (0.0, -1000.0)
    assert with_bandwidth(unknown, sample, True, 1e7)["bandwidth_in"] == (3_000.0, 1e7)
    assert with_bandwidth(unknown, sample, True, None)["bandwidth_out"] == (5.0, 1e9)
    assert with_bandwidth(unknown, sample, True, 1e7)["bandwidth_out"] == (5.0, 1e7)


class _Sent:
    """Takes records; the futures never end."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def send(
        self, topic: str, value: Any, key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        self.records.append(json.loads(json.dumps(value)))
        return Future()


def _too_big(stats: BundleStats) -> Reason | None:
    return Reason.SPLIT_MSG_RATE if stats.msg_rate_in > 100 else None


@pytest.mark.covers("report-continuously", "split-lasting", "split-proposed-locally")
def test_reports_are_numbered_and_propose_after_two_hits() -> None:
    async def scenario() -> tuple[list[Any], list[Any]]:
        runtime = MemoryRuntime(MemoryFences())
        await runtime.serve(WHOLE, 1)
        runtime.loads[WHOLE] = BundleStats(msg_rate_in=500, topics=4)
        sent, proposals = _Sent(), []
        reporter = Reporter(
            runtime, sent, "load-reports", top_k=5, wall_ms=lambda: 9, metrics=AgentMetrics(),
            splits=SplitWatch(_too_big), propose=proposals.append,
        )  # fmt: skip
        await reporter.report(ME)
        assert proposals == []
        await reporter.report(ME)
        return sent.records, proposals

    records, proposals = asyncio.run(scenario())
    assert [r["sequence"] for r in records] == [1, 2]
    assert [(p.bundle, p.boundary, p.reason) for p in proposals] == [(WHOLE, WHOLE.middle(), Reason.SPLIT_MSG_RATE)]


@pytest.mark.covers("split-lasting")
def test_a_single_sample_never_proposes_and_a_proposal_is_repeated_after_a_minute_only() -> None:
    watch, busy = SplitWatch(_too_big), {WHOLE: BundleStats(msg_rate_in=500, topics=4)}
    assert watch.observe(busy) == []
    assert watch.observe({WHOLE: BundleStats()}) == []
    found = [len(watch.observe(busy)) for _ in range(2 + AGAIN_AFTER)]
    assert found == [0, 1] + [0] * (AGAIN_AFTER - 1) + [1]


@pytest.mark.covers("split-single-topic")
def test_bundle_with_one_topic_is_not_proposed() -> None:
    watch = SplitWatch(_too_big)
    one = {WHOLE: BundleStats(msg_rate_in=500, topics=1)}
    assert [watch.observe(one) for _ in range(3)] == [[], [], []]


@given(loads=st.dictionaries(st.integers(0, 400).map("persistent://t/n/{}".format), st.floats(0, 1e6), max_size=30))
def test_cut_by_load_leaves_both_halves_topics_and_is_the_most_even(loads: dict[str, float]) -> None:
    boundary = boundary_by_load(WHOLE, loads)
    hashes = sorted({topic_hash(t) for t in loads})
    if len(hashes) < 2:
        assert boundary is None
        return
    assert boundary in hashes[1:]

    def unevenness(cut: int) -> float:
        left = sum(load for t, load in loads.items() if topic_hash(t) < cut)
        return abs(sum(loads.values()) - 2 * left)

    least = min(unevenness(cut) for cut in hashes[1:])
    assert unevenness(boundary) == pytest.approx(least, rel=1e-9, abs=1e-3)


@pytest.mark.covers("report-cpu")
@pytest.mark.parametrize(
    ("cores", "cpu_max", "limit"),
    [(4, None, 400.0), (4, "max 100000", 400.0), (4, "150000 100000", 150.0), (2, "800000 100000", 200.0)],
)
def test_cpu_limit_is_the_smaller_of_cores_and_quota(cores: int, cpu_max: str | None, limit: float) -> None:
    assert cpu_limit_pct(cores, cpu_max) == limit


@pytest.mark.covers("nic-override", "nic-fraction", "nic-empty")
@pytest.mark.parametrize(
    ("speeds", "override", "limit"),
    [([1_000, 1_000], None, 250e6), ([1_000, 0], None, -1.0), ([], None, -1.0), ([0, 0], 0.08, 20e6), ([], 0.08, 10e6)],
)
def test_network_limit(speeds: list[int], override: float | None, limit: float) -> None:
    assert nic_limit_bytes_per_s(speeds, override) == limit


@pytest.mark.covers("report-memory", "system-metrics")
def test_host_figures_come_from_the_container_where_it_is_limited(tmp_path: Path) -> None:
    files = {"cpu.max": "150000 100000", "cpu.stat": "usage_usec 5000000\nuser_usec 1", "memory.max": "1000"}
    for name, text in {**files, "memory.current": "250"}.items():
        (tmp_path / name).write_text(text)
    host = HostLoad(override_nic_gbps=0.5, cgroup=tmp_path)
    (tmp_path / "cpu.stat").write_text("usage_usec 6000000\nuser_usec 1")
    sample = host.sample()
    assert sample["memory"] == (250.0, 1000.0)
    assert sample["cpu"][0] > 0
    assert sample["cpu"][1] == min(150.0, 100.0 * (psutil.cpu_count() or 1))
    assert sample["bandwidth_in"][1] > 0
    assert sample["disk_io"][1] == -1.0


@pytest.mark.covers("system-metrics")
def test_host_figures_of_this_machine_are_possible() -> None:
    sample = HostLoad().sample()
    for name in ("cpu", "memory"):
        usage, limit = sample[name]
        assert usage >= 0
        assert limit > 0


@pytest.mark.covers("nic-override")
def test_configuration_reaches_the_agent() -> None:
    settings = load_settings(None, "local", ["agent.override_broker_nic_speed_gbps=0.08", "loads.top_k_bundles=7"], {})
    options = options_of(settings)
    assert options.nic_bytes_per_s == 0.08 * 125e6
    assert options.top_k_bundles == 7
    assert options.lease_ms == settings.control.lease_ms


@pytest.mark.covers("split-switch")
@pytest.mark.parametrize("enabled", [True, False])
def test_split_switch(enabled: bool) -> None:
    settings = load_settings(None, "local", [f"split.enabled={str(enabled).lower()}"], {})
    assert (make_split_watch(settings) is not None) is enabled


@pytest.mark.covers("split-max-msg-rate")
def test_split_limits_of_the_configuration_are_used() -> None:
    watch = make_split_watch(load_settings(None, "local", (), {}))
    assert watch is not None
    busy = {WHOLE: BundleStats(msg_rate_in=20_000, msg_rate_out=20_000, topics=4)}
    assert watch.observe(busy) == []
    assert [p.reason for p in watch.observe(busy)] == [Reason.SPLIT_MSG_RATE]


def test_bad_capacity_names_value_and_choice() -> None:
    assert parse_capacity(["cpu_pct=150"]).cpu_pct == 150.0
    with pytest.raises(ConfigError, match="'speed' is none of cpu_pct"):
        parse_capacity(["speed=1"])
    with pytest.raises(ConfigError, match="'much' is not a number"):
        parse_capacity(["cpu_pct=much"])


def test_heartbeats_must_fit_three_times_into_a_lease() -> None:
    with pytest.raises(ValueError, match="heartbeat_ms 1100"):
        AgentOptions(lease_ms=3_000, heartbeat_ms=1_100)


@pytest.mark.covers("split-max-topics")
def test_too_many_topics_are_parted_by_their_number() -> None:
    watch = SplitWatch(lambda stats: Reason.SPLIT_TOPICS)
    names = [f"persistent://t/n/{i}" for i in range(40)]
    loads = {name: 1_000.0 if at == 0 else 0.0 for at, name in enumerate(names)}
    watch.observe({WHOLE: BundleStats(topics=40)}, lambda bundle: loads)
    (proposal,) = watch.observe({WHOLE: BundleStats(topics=40)}, lambda bundle: loads)
    assert sum(topic_hash(name) < proposal.boundary for name in names) == 20


class _Knowing(MemoryRuntime):
    """A runtime that knows what each of its topics does."""

    by_topic: Mapping[str, float] = MappingProxyType({})

    def topic_loads(self, bundle: Bundle) -> Mapping[str, float]:
        return {name: load for name, load in self.by_topic.items() if bundle.contains(topic_hash(name))}


@pytest.mark.parametrize("knows", [True, False])
def test_the_halves_of_a_cut_and_the_best_cut(knows: bool) -> None:
    async def scenario() -> dict[str, float]:
        runtime = _Knowing(MemoryFences()) if knows else MemoryRuntime(MemoryFences())
        await runtime.serve(WHOLE, 1)
        runtime.loads[WHOLE] = BundleStats(msg_rate_in=300, msg_rate_out=100, topics=4)
        if isinstance(runtime, _Knowing):
            runtime.by_topic = {f"persistent://t/n/{i}": 40.0 if i else 60.0 for i in range(9)}
        reporter = Reporter(runtime, _Sent(), "load-reports", top_k=5, wall_ms=lambda: 9, metrics=AgentMetrics())
        await reporter.report(ME)
        return reporter.halves(WHOLE, 0x10000000)

    told = asyncio.run(scenario())
    assert told["lower_load"] + told["upper_load"] == pytest.approx(400)
    if not knows:
        assert told == {"lower_load": pytest.approx(25), "upper_load": pytest.approx(375)}
        return
    hashes = {f"persistent://t/n/{i}": topic_hash(f"persistent://t/n/{i}") for i in range(9)}
    below = sum((40 if name[-1] != "0" else 60) for name, at in hashes.items() if at < 0x10000000)
    assert told["lower_load"] == pytest.approx(400 * below / 380)
    assert abs(told["best_lower_load"] - told["best_upper_load"]) <= 400 * 60 / 380 + 1e-6
    assert told["best_lower_load"] + told["best_upper_load"] == pytest.approx(400)
    assert told["best_boundary"] in hashes.values()
