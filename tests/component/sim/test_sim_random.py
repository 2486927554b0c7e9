"""Random clusters, loads, reports and faults, through the real round and the real step: the invariants hold anyway.

`simulate` raises InvariantBroken for I1 to I4, I6, I7 and I8. I9 has its own property: load that only jitters about a
balanced placement, however noisily it is measured, moves nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.domain.settings.policy import PolicySettings, SplitSettings
from controller.sim.load.reports import ReportSpec
from controller.sim.load.shapes import Diurnal, Drift, Growth, Jitter, Periodic, Spike
from controller.sim.load.workloads import SKEWS, LoadSpec
from controller.sim.scenario.faults import CRASH, CUT, JOIN, LEAVE, RESTART, SILENT, SLOW, Fault
from controller.sim.scenario.scenario import PLACES, ClusterSpec, Scenario
from controller.sim.simulation import simulate
from tests.examples import examples

MINUTE_MS = 60_000
DURATION_MS = 12 * MINUTE_MS
OURS = ("steady", "headroom", "weighted")
PULSARS = ("threshold", "uniform", "average", "transfer", "overload", "simple")


@st.composite
def scenarios(draw: st.DrawFn, strategies: tuple[str, ...]) -> Scenario:
    brokers = draw(st.integers(3, 6))
    cores = draw(st.sampled_from([(8.0,), (4.0, 16.0), (2.0, 8.0, 32.0)]))
    spec = ClusterSpec(brokers, cores, place=draw(st.sampled_from(PLACES)))
    load = LoadSpec(
        bundles=draw(st.integers(8, 48)), tenants=draw(st.integers(1, 4)), topics=draw(st.integers(1, 8)),
        skew=draw(st.sampled_from(SKEWS)), sigma=draw(st.sampled_from([0.5, 1.0, 2.0])),
        utilisation=draw(st.sampled_from([0.1, 0.5, 0.8, 1.3])),
    )  # fmt: skip
    reports = ReportSpec(
        every_ms=draw(st.sampled_from([5_000, 10_000])), delay_ms=draw(st.sampled_from([0, 2_000, 20_000])),
        noise=draw(st.sampled_from([0.0, 0.03, 0.3])), loss=draw(st.sampled_from([0.0, 0.1, 0.6])),
    )  # fmt: skip
    split = SplitSettings(max_msg_rate_per_s=draw(st.sampled_from([3_000.0, 30_000.0])), max_topics=5)
    shapes = draw(st.lists(st.sampled_from([
        Diurnal(period_ms=DURATION_MS), Periodic(), Spike(at_ms=3 * MINUTE_MS, for_ms=4 * MINUTE_MS),
        Spike(count=1, factor=3.0, by="tenant"), Drift(per_hour=3.0), Growth(per_hour=5.0, share=0.3), Jitter(0.2),
    ]), max_size=3))  # fmt: skip
    return Scenario(
        cluster=spec, load=load, shapes=tuple(shapes), reports=reports,
        faults=tuple(draw(st.lists(faults(brokers), max_size=3, unique_by=lambda fault: fault.broker))),
        policy=PolicySettings(strategy=draw(st.sampled_from(strategies)), split=split),
        round_every_ms=draw(st.sampled_from([20_000, MINUTE_MS])), duration_ms=DURATION_MS,
    )  # fmt: skip


def faults(brokers: int) -> Any:
    """One fault; two of a scenario never name the same broker."""
    at_ms = st.integers(0, DURATION_MS // 10_000).map(lambda tick: tick * 10_000)
    for_ms = st.sampled_from([30_000, 3 * MINUTE_MS])
    old = st.sampled_from([f"b{number + 1}" for number in range(brokers)])
    kinds = st.sampled_from([CRASH, LEAVE, SLOW, SILENT, CUT])
    named = st.builds(Fault, kind=kinds, broker=old, at_ms=at_ms, for_ms=for_ms, factor=st.sampled_from([1.5, 4.0]))
    new = st.builds(Fault, kind=st.just(JOIN), broker=st.just(f"b{brokers + 1}"), at_ms=at_ms)
    again = st.builds(Fault, kind=st.just(RESTART), broker=st.just(""), at_ms=at_ms)
    return st.one_of(named, new, again)


@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(scenario=scenarios(OURS), seed=st.integers(0, 2**32))
def test_our_strategies_keep_all_invariants_whatever_happens(scenario: Scenario, seed: int) -> None:
    figures = simulate(scenario, seed).figures
    assert figures.repeats == 0
    assert figures.brokers >= 1


@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
@given(scenario=scenarios(PULSARS), seed=st.integers(0, 2**32))
def test_pulsars_strategies_keep_those_of_the_cluster(scenario: Scenario, seed: int) -> None:
    simulate(scenario, seed)


@pytest.mark.parametrize("seed", [0, 6])
def test_a_replay_without_any_bundle_judges_brokers_by_the_same_resources(seed: int) -> None:
    """A round that looked into no bundle names none; bytes counted in it, and in its replay nothing but CPU did."""
    scenario = Scenario(
        cluster=ClusterSpec(3, (2.0, 8.0, 32.0), place="spread"),
        load=LoadSpec(bundles=8, tenants=1, topics=2, skew="equal", sigma=0.5, utilisation=0.1),
        shapes=(Diurnal(period_ms=DURATION_MS),),
        reports=ReportSpec(every_ms=5_000, delay_ms=0, noise=0.0, loss=0.0),
        policy=PolicySettings(strategy="steady", split=SplitSettings(max_msg_rate_per_s=3_000.0, max_topics=5)),
        round_every_ms=20_000,
        duration_ms=DURATION_MS,
    )
    simulate(scenario, seed)


@pytest.mark.faults
@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
@given(scenario=scenarios(OURS + PULSARS), seed=st.integers(0, 2**32))
def test_invariants_in_hundreds_of_clusters(scenario: Scenario, seed: int) -> None:
    simulate(scenario, seed)


@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
@given(
    brokers=st.integers(3, 8), a_broker=st.integers(8, 20), noise=st.sampled_from([0.0, 0.03]),
    utilisation=st.sampled_from([0.2, 0.5, 0.7]), strategy=st.sampled_from(OURS), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_a_quiet_cluster_stays_quiet(
    brokers: int, a_broker: int, noise: float, utilisation: float, strategy: str, seed: int
) -> None:
    calm = Scenario(
        cluster=ClusterSpec(brokers),
        load=LoadSpec(bundles=brokers * a_broker, tenants=1, skew="equal", utilisation=utilisation),
        shapes=(Jitter(0.05),),
        reports=ReportSpec(noise=noise),
        policy=PolicySettings(strategy=strategy, split=SplitSettings(max_msg_rate_per_s=None)),
        duration_ms=20 * MINUTE_MS,
    )
    assert sum(simulate(calm, seed).figures.moves.values()) == 0
