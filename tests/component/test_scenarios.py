"""Every scenario file in tests/scenarios: its assertions hold, and it prints what it says.

After a change of a strategy the figures may differ: `ballast sim tests/scenarios --rewrite`, and read the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.settings.policy import PolicySettings, ShedSettings
from controller.policy.strategies import STRATEGIES, StrategyOutcome
from controller.policy.view.snapshot import Snapshot
from controller.sim.load.reports import ReportSpec
from controller.sim.load.shapes import Drift
from controller.sim.load.workloads import LoadSpec
from controller.sim.ownership.load_cluster import LoadCluster
from controller.sim.scenario.faults import Fault
from controller.sim.scenario.file import Result, run_file
from controller.sim.scenario.scenario import ClusterSpec, Scenario
from controller.sim.simulation import simulate

FOLDER = Path(__file__).parents[1] / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))
MINUTE_MS = 60_000

SMALL = Scenario(
    cluster=ClusterSpec(brokers=4, place="random"),
    load=LoadSpec(bundles=40, tenants=2),
    shapes=(Drift(per_hour=1.0),),
    reports=ReportSpec(noise=0.03, loss=0.05),
    faults=(Fault("crash", "b2", 5 * MINUTE_MS, 5 * MINUTE_MS), Fault("slow", "b1", 8 * MINUTE_MS, 4 * MINUTE_MS)),
    policy=PolicySettings(strategy="headroom"),
    duration_ms=20 * MINUTE_MS,
)


def test_there_is_a_file_for_every_kind_of_workload_and_fault() -> None:
    text = "\n".join(file.read_text() for file in FILES)
    wanted = [f"shape {kind}" for kind in ("diurnal", "periodic", "spike", "drift", "growth", "jitter")]
    wanted += [" join at", " leave at", " crash at", " slow at", " silent at", " cut at", "fault restart"]
    assert len(FILES) >= 12
    assert [part for part in [*wanted, "noise=", "loss=", "cores=8,16,32", "place=packed"] if part not in text] == []


@cache
def carried_out(file: Path) -> Result:
    return run_file(file.read_text(), f"tests/scenarios/{file.name}")


@pytest.mark.covers("even-load", "broker-joins", "broker-leaves", "broker-dies")
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_scenario(file: Path) -> None:
    result = carried_out(file)
    assert result.outcomes
    assert result.failures == ()


def test_files_say_what_comes_of_them() -> None:
    """Better or worse, a change of a strategy is to be seen in the figures that are checked in."""
    results = [carried_out(file) for file in FILES]
    differences = [told for result in results for told in (*result.differences, *result.unrecorded)]
    assert not differences, "\n".join([*differences, "read it; if it is meant: ballast sim tests/scenarios --rewrite"])


def test_the_same_seed_gives_the_same_figures_and_series() -> None:
    one, two = simulate(SMALL, 5), simulate(SMALL, 5)
    assert one.figures == two.figures
    assert one.track.moves == two.track.moves
    assert one.track.max_best().tolist() == two.track.max_best().tolist()
    assert one.figures.moves["failover"] > 0


def test_another_seed_gives_other_figures() -> None:
    assert simulate(SMALL, 5).figures != simulate(SMALL, 6).figures


def test_a_clock_that_stands_still_while_nothing_happens_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run with every second of the ownership simulation lived through: only delays differ."""
    short = simulate(SMALL, 5)
    monkeypatch.setattr(LoadCluster, "run_while_busy", LoadCluster.run)
    long = simulate(SMALL, 5)
    assert len(short.track.moves) > 10
    assert sorted(long.track.moves) == sorted(short.track.moves)
    assert long.track.max_best().tolist() == short.track.max_best().tolist()
    assert long.figures.unavailable_bundle_s == pytest.approx(short.figures.unavailable_bundle_s, rel=0.2)


@pytest.mark.covers("balancing-costs-little")
def test_the_cost_of_moves_is_seen() -> None:
    """Clients that reconnect slowly make the same moves dearer: more bundle-seconds without service."""
    still = replace(SMALL, faults=(), shapes=())
    quick = simulate(still, 5).figures
    slow = simulate(replace(still, costs=replace(still.costs, reconnects_per_s=5.0)), 5).figures
    assert quick.moves == slow.moves
    assert sum(quick.moves.values()) > 0
    assert slow.unavailable_bundle_s > 5 * quick.unavailable_bundle_s


class _Swing:
    """A balancer without memory or manners: whatever b1 holds first goes to b2, and the round after it comes back."""

    name = "swing"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        at = int(memory.get("at", 0))
        bundle = int(memory.get("bundle", snapshot.bundles_of(at)[0]))
        names = snapshot.brokers[at], snapshot.brokers[1 - at]
        move = Decision(
            "", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, snapshot.bundles[bundle], *names,
            epoch=int(snapshot.epoch[bundle]),
        )  # fmt: skip
        kept = {"at": 1 - at, "bundle": bundle}
        return StrategyOutcome((move,), (), kept, np.ones(len(snapshot.bundles), bool))


def test_a_balancer_that_swings_is_seen_to_thrash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "swing", _Swing())
    two = Scenario(
        cluster=ClusterSpec(brokers=2),
        load=LoadSpec(bundles=8, tenants=1, utilisation=0.3, skew="equal"),
        policy=PolicySettings(strategy="swing", shed=ShedSettings(grace_period_ms=0)),
        duration_ms=20 * MINUTE_MS,
    )
    figures = simulate(two, 1).figures
    assert figures.moves["balance"] == 19  # the twentieth round ends the run
    assert figures.repeats == 18
    assert figures.steady_ms < 2 * MINUTE_MS
    # a broker's load goes by one bundle 9 times up and 10 times down: (9/10)**0.8 = 0.9192, times 19, plus 0.0808 times
    # 9, is 18.19 bundles; two brokers, in percent of the two bundles between the fullest (5) and the emptiest (3)
    assert figures.thrash_pct == pytest.approx(1819.2, abs=0.5)


def test_moves_within_the_grace_period_are_refused_by_the_step_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same balancer under the usual grace period: one move in 20 minutes, whatever it decides."""
    monkeypatch.setitem(STRATEGIES, "swing", _Swing())
    policy = PolicySettings(strategy="swing")
    load = LoadSpec(bundles=8, tenants=1, utilisation=0.3)
    two = Scenario(cluster=ClusterSpec(brokers=2), load=load, policy=policy, duration_ms=20 * MINUTE_MS)
    figures = simulate(two, 1).figures
    assert figures.moves["balance"] == 1
    assert figures.thrash_pct == 0.0


def test_rounds_that_follow_each_other_quickly_do_not_take_back_what_the_last_one_did() -> None:
    """The averages of a minute still hold a bundle that left seconds ago: it must count for its new owner only."""
    still = replace(
        SMALL, faults=(), shapes=(), load=LoadSpec(bundles=160, tenants=4), cluster=ClusterSpec(8, place="random")
    )
    usual = simulate(still, 43).figures
    quick = simulate(replace(still, round_every_ms=20_000), 43).figures
    assert usual.moves["balance"] > 3
    assert quick.moves["balance"] <= 1.5 * usual.moves["balance"]
    assert quick.thrash_pct <= usual.thrash_pct + 20
