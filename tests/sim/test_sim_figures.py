"""Figures of a simulated run, by hand: thrash, balance, repeats; reports as a round reads them; rounds' invariants."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.published.clusters import cluster, loads
from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle
from controller.sim.figures import Track, best_achievable, count_repeats
from controller.sim.load.cost_model import RESOURCE
from controller.sim.load.reports import Reports, ReportSpec
from controller.sim.load.world import Moment
from controller.sim.ownership.load_cluster import BALANCE, FAILOVER, SPLIT, Move
from controller.sim.round_invariants import check_grace, check_replay, check_round
from controller.sim.thrash import thrash_pct, trend_discounted_variation

CPU = RESOURCE["cpu"]
MINUTE_MS = 60_000
R, F = 6, 13
NAMES = ("t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff")


def moment(cpu: list[float], owner: list[int], brokers: list[float] | None = None) -> Moment:
    """Bundles with these CPU costs on brokers with these limits (100 % each by default)."""
    limits = brokers or [100.0, 100.0]
    cost = np.zeros((len(cpu), R))
    cost[:, CPU] = cpu
    limit = np.ones((len(limits), R))
    limit[:, CPU] = limits
    demand = np.zeros((len(limits), R))
    np.add.at(demand, np.array(owner), cost)
    fields = np.zeros((len(cpu), F))
    fields[:, 0] = cpu
    bundles = tuple(map(Bundle.parse, NAMES))[: len(cpu)]
    return Moment(
        bundles=bundles, names=NAMES[: len(cpu)], owner=np.array(owner), cost=cost, idle=np.zeros_like(limit),
        demand=demand, usage=np.minimum(demand, limit), limit=limit, able=limit, fields=fields,
        topic_work=np.array(cpu),
    )  # fmt: skip


# ------------------------------------------------------------ thrash


@pytest.mark.parametrize(
    ("values", "variation"),
    [
        ([1, 2, 3, 9], 0.0),  # a trend is no thrashing
        ([9, 3, 1], 0.0),
        ([5, 5, 5], 0.0),
        ([0, 1, 0, 1, 0], 4.0),  # no trend: all of it
        # u = 3, d = 1: a = (1/3) ** 0.8 = 0.4152; a * 4 + (1 - a) * 1
        ([0, 2, 1, 2], 2.2457),
        ([0, np.nan, 1, 0], 2.0),  # gaps are left out
    ],
)
def test_trend_discounted_variation(values: list[float], variation: float) -> None:
    found = trend_discounted_variation(np.array(values, float))
    assert found == pytest.approx(variation, abs=1e-4)
    assert trend_discounted_variation(-np.array(values, float)) == pytest.approx(found)  # up and down are alike
    assert trend_discounted_variation(3 * np.array(values, float)) == pytest.approx(3 * found)


def test_thrash_is_summed_over_brokers_in_percent_of_their_common_range() -> None:
    swing, rise = np.array([0.0, 1.0, 0.0]), np.array([0.0, 2.0, 4.0])
    assert thrash_pct([swing, rise]) == pytest.approx(50.0)
    assert thrash_pct([swing, swing]) == pytest.approx(400.0)
    assert thrash_pct([np.ones(3)]) == thrash_pct([]) == 0.0


def test_a_bundle_that_goes_and_comes_back_is_thrash_and_one_that_goes_is_none() -> None:
    def run(owners: list[list[int]], moves: dict[int, Move]) -> Track:
        track = Track(MINUTE_MS)
        for tick, owner in enumerate(owners):
            track.note(tick * MINUTE_MS, moment([30.0, 50.0], owner), np.array([True, True]), np.array([0, 1]))
            track.note_moves([moves[tick]] if tick in moves else [], _ring(), ["b1", "b2"])
        return track

    there = Move(MINUTE_MS, NAMES[0], "b1", "b2", BALANCE, 0)
    back = Move(2 * MINUTE_MS, NAMES[0], "b2", "b1", BALANCE, MINUTE_MS)
    assert run([[0, 0], [1, 0], [1, 0]], {1: there}).thrash_pct() == 0.0
    # 0.3 there and back on both brokers, in a range of 0.0 .. 0.8
    assert run([[0, 0], [1, 0], [0, 0]], {1: there, 2: back}).thrash_pct() == pytest.approx(100 * 1.2 / 0.8)
    died = dataclasses.replace(there, cause=FAILOVER), dataclasses.replace(back, cause=FAILOVER)
    assert run([[0, 0], [1, 0], [0, 0]], dict(enumerate(died, start=1))).thrash_pct() == 0.0


def _ring() -> SimpleNamespace:
    """Both bundles hold one topic each."""
    index = {bundle: at for at, bundle in enumerate(map(Bundle.parse, NAMES))}
    return SimpleNamespace(index=index, bundle=np.array([0, 1]))


# ------------------------------------------------------------ balance


def test_best_achievable_is_the_mean_or_the_biggest_bundle() -> None:
    both = np.array([True, True])
    assert best_achievable(moment([40.0, 40.0], [0, 0]), both) == pytest.approx(0.4)
    assert best_achievable(moment([70.0, 10.0], [0, 0]), both) == pytest.approx(0.7)  # one bundle cannot be parted
    assert best_achievable(moment([70.0, 10.0], [0, 0], [100.0, 300.0]), both) == pytest.approx(70 / 300)
    assert best_achievable(moment([40.0, 40.0], [0, 0]), np.array([True, False])) == pytest.approx(0.8)


def test_balance_counts_members_only() -> None:
    track = Track(MINUTE_MS)
    track.note(0, moment([60.0, 20.0], [0, 1]), np.array([True, True]), np.array([0, 1]))
    track.note(MINUTE_MS, moment([60.0, 20.0], [0, 1]), np.array([False, True]), np.array([0, 1]))
    assert track.max_mean().tolist() == pytest.approx([0.6 / 0.4, 1.0])
    assert track.min_mean().tolist() == pytest.approx([0.2 / 0.4, 1.0])
    assert track.max_best().tolist() == pytest.approx([0.6 / 0.6, 0.2 / 0.8])


def test_repeats_are_moves_by_rounds_within_thirty_minutes() -> None:
    def moved(minute: int, cause: str = BALANCE, bundle: str = "x") -> Move:
        return Move(minute * MINUTE_MS, bundle, "b1", "b2", cause, minute * MINUTE_MS)

    assert count_repeats([moved(0), moved(30)]) == 0
    assert count_repeats([moved(0), moved(29), moved(40)]) == 2
    assert count_repeats([moved(0), moved(5, FAILOVER), moved(6, bundle="y")]) == 0


# ------------------------------------------------------------ reports


def test_a_round_sees_the_reports_of_the_last_minute() -> None:
    reports = Reports(ReportSpec(every_ms=10_000, delay_ms=0), seed=1)
    for tick in range(12):
        reports.take(10_000 * tick, moment([10.0 * (tick + 1), 5.0], [0, 1]), np.array([1, 1]))
    brokers, bundles = reports.rolling(120_000, ["b1", "b2"])
    assert brokers["broker"].tolist() == ["b1", "b2"]
    assert brokers["reports"].tolist() == [6, 6]
    assert brokers["last_event_ms"].tolist() == [110_000, 110_000]
    assert brokers["cpu_usage"].tolist() == pytest.approx([np.mean([70, 80, 90, 100, 100, 100]), 5.0])  # at its limit
    assert bundles["bundle"].tolist() == list(NAMES)
    assert bundles["msg_rate_in"].tolist() == pytest.approx([95.0, 5.0])
    assert brokers["msg_rate_in"].tolist() == pytest.approx([95.0, 5.0])


def test_a_bundle_that_moved_has_a_row_for_each_broker_that_reported_it() -> None:
    reports = Reports(ReportSpec(delay_ms=0), seed=1)
    for tick in range(6):
        reports.take(10_000 * tick, moment([10.0, 20.0], [int(tick >= 4), 1]), np.array([1, 1]))
    _, bundles = reports.rolling(60_000, ["b1", "b2"])
    rows = zip(bundles["bundle"].tolist(), bundles["broker"].tolist(), bundles["reports"].tolist(), strict=True)
    assert list(rows) == [(NAMES[0], "b1", 4), (NAMES[0], "b2", 2), (NAMES[1], "b2", 6)]


def test_late_reports_count_when_they_come_and_the_dead_say_nothing() -> None:
    reports = Reports(ReportSpec(delay_ms=50_000), seed=2)
    for tick in range(6):
        reports.take(10_000 * tick, moment([10.0, 20.0], [0, 1]), np.array([1, 0]))
    at_once, _ = reports.rolling(60_000, ["b1", "b2"])
    later, _ = reports.rolling(100_000, ["b1", "b2"])
    assert at_once["broker"].tolist() == later["broker"].tolist() == ["b1"]
    assert 0 < int(at_once["reports"][0]) < 6
    assert later["last_event_ms"][0] > at_once["last_event_ms"][0]


def test_noise_is_as_large_as_it_says_and_losses_as_many() -> None:
    reports = Reports(ReportSpec(noise=0.1, loss=0.25, delay_ms=0), seed=3)
    seen = []
    for tick in range(400):
        reports.take(10_000 * tick, moment([50.0, 50.0], [0, 1]), np.array([1, 1]))
        brokers, _ = reports.rolling(10_000 * tick + 1, ["b1", "b2"])
        seen += [u for u, n in zip(brokers["cpu_usage"].tolist(), brokers["reports"].tolist(), strict=True) if n]
    assert reports.lost / reports.sent == pytest.approx(0.25, abs=0.05)
    assert np.mean(seen) == pytest.approx(50.0, abs=1.0)
    assert 1.0 < np.std(seen) < 4.0  # 5 for one report, less for the mean of up to six


def test_a_process_started_again_is_another_row() -> None:
    reports = Reports(ReportSpec(delay_ms=0), seed=1)
    for tick in range(6):
        reports.take(10_000 * tick, moment([10.0, 20.0], [0, 1]), np.array([1 + tick // 3, 1]))
    brokers, _ = reports.rolling(60_000, ["b1", "b2"])
    rows = zip(brokers["broker"].tolist(), brokers["incarnation"].tolist(), brokers["reports"].tolist(), strict=True)
    assert list(rows) == [("b1", 1, 3), ("b1", 2, 3), ("b2", 1, 6)]


# ------------------------------------------------------------ invariants of rounds


def _round(*decisions: Decision, strategy: str = "headroom") -> RoundResult:
    scores = ({"broker": "b0", "score": 0.8}, {"broker": "b1", "score": 0.2})
    return RoundResult("r", 1, 1, strategy, decisions, scores, {}, "hash")


def _transfer(bundle: str, target: str = "b1", after: float = 0.5) -> Decision:
    return Decision(
        "d", DecisionKind.TRANSFER, Label.SUCCESS, Reason.OVERLOADED, bundle, "b0", target,
        before={"b0": 0.8, target: 0.2}, after={"b0": 0.7, target: after},
    )  # fmt: skip


def test_rounds_are_held_to_their_budget_targets_and_prediction() -> None:
    state = cluster().broker("b0").broker("b1").broker("gone", alive=False).broker("full", drained=True).state
    check_round(_round(_transfer("x"), _transfer("y")), state, 2)
    for broken, told in (
        (_round(_transfer("x"), _transfer("y"), _transfer("z")), "its budget is 2"),
        (_round(_transfer("x"), _transfer("x")), "names a bundle twice"),
        (_round(_transfer("x", "gone")), "does not live"),
        (_round(_transfer("x", "full")), "is to be emptied"),
        (_round(_transfer("x", "b0")), "to itself"),
        (_round(_transfer("x", after=0.9)), "leaves b1 at 0.9, the worst was at 0.8"),
    ):
        with pytest.raises(InvariantBroken, match="I7: .*" + told):
            check_round(broken, state, 2)


def test_pulsars_strategies_have_no_budget_but_eligible_targets() -> None:
    state = cluster().broker("b0").broker("b1").broker("gone", alive=False).state
    check_round(_round(_transfer("x", after=0.9), _transfer("y"), _transfer("z"), strategy="threshold"), state, 2)
    with pytest.raises(InvariantBroken, match="does not live"):
        check_round(_round(_transfer("x", "gone"), strategy="threshold"), state, 2)


def test_a_round_whose_stored_inputs_differ_from_its_plan_is_found() -> None:
    result = loads(90, 20, 20).second_round()
    check_replay(result)
    with pytest.raises(InvariantBroken, match="I4"):
        check_replay(dataclasses.replace(result, plan_hash="0" * 64))


def test_a_move_within_the_grace_period_is_found_unless_the_broker_died() -> None:
    def moved(minute: int, cause: str, slow: int = 0) -> Move:
        return Move((minute + slow) * MINUTE_MS, "x", "b1", "b2", cause, minute * MINUTE_MS)

    grace = 30 * MINUTE_MS
    check_grace([moved(0, BALANCE), moved(30, BALANCE)], grace)
    check_grace([moved(0, BALANCE, slow=2), moved(30, BALANCE)], grace)  # it counts from the rounds
    check_grace([moved(0, BALANCE), moved(5, FAILOVER), moved(10, BALANCE)], grace)
    for first in (BALANCE, SPLIT):
        with pytest.raises(InvariantBroken, match="I8"):
            check_grace([moved(0, first), moved(29, BALANCE)], grace)
