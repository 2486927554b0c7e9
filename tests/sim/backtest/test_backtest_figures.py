"""Every figure of the scoreboard on examples that are reckoned by hand.

Two brokers of one core, six steps, a round after every second step. b1 carries A 30, B 20 and C 10, b2 carries D 20; a
message a second costs one percent of a core. So the loads are 0.6 and 0.2, and 0.4 is the best that can be achieved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from controller.backtest.point.figures import broker_loads
from controller.backtest.point.run_point import play
from controller.backtest.recording.prepared import Replay
from controller.domain.decision import Decision
from controller.domain.errors import InvariantBroken
from controller.domain.settings.policy import PolicySettings
from tests.sim.backtest.backtest_recordings import A, B, C, D, Held, Script, move, played, prepared_of, report, split

STEPS = 6
ONE: Held = {A: 30.0, B: 20.0, C: 10.0}
TWO: Held = {D: 20.0}
GONE = (report("b2", 0, TWO),)
EVEN = {"b1": 0.4, "b2": 0.4}


def recorded(one: Held = ONE, two: Held = TWO, steps: int = STEPS) -> list[dict[str, Any]]:
    return [r for at in range(steps) for r in (report("b1", at, one), report("b2", at, two))]


def test_nothing_moves() -> None:
    point = played(recorded(), {})[0].point
    assert (point.rounds, point.brokers, point.bundles) == (3, 2, 4)
    assert point.max_best_mean == point.max_best_end == point.max_best_worst == pytest.approx(1.5)
    assert point.cv_mean == pytest.approx(0.5)  # deviation 0.2 of a mean of 0.4
    assert (point.moves, point.splits, point.useless_moves, point.thrash_pct) == (0, 0, 0, 0.0)
    assert (point.error_p50, point.error_p90, point.n_checked) == (None, None, 0)
    assert point.overload_minutes == 0.0


def test_one_good_move() -> None:
    """B goes to b2 after the first round: both are at 0.4 from the third step on."""
    run, world, script = played(recorded(), {0: [move(B, "b1", "b2", EVEN)]})
    point = run.point
    assert point.max_best_mean == pytest.approx((2 * 1.5 + 4 * 1.0) / 6, abs=1e-6)
    assert (point.max_best_end, point.max_best_worst) == (pytest.approx(1.0), pytest.approx(1.5))
    assert point.cv_mean == pytest.approx(2 * 0.5 / 6, abs=1e-6)
    assert (point.moves_addition, point.moves_removal, point.moves_balance) == (0, 0, 1)
    assert (point.useless_moves, point.useless_rate, point.thrash_pct) == (0, 0.0, 0.0)
    assert point.unavailable_bundle_s == 1.0
    assert (point.error_p50, point.error_p90, point.n_checked) == (0.0, 0.0, 2)
    assert run.timeline.moves == (0, 0, 1, 0, 0, 0)
    assert run.timeline.max_best == pytest.approx((1.5, 1.5, 1.0, 1.0, 1.0, 1.0))
    assert [s.score.tolist() for s in script.seen] == [[6_000, 2_000], [4_000, 4_000], [4_000, 4_000]]
    assert world.moves[0].at_ms == 60_000 + world.prepared.at_ms[0] - 30_000
    moved = script.seen[1].moved_at_ms[script.seen[1].bundles.index(B)]
    assert moved == world.moves[0].at_ms, "a grace period counts from the round"


def test_predictions_are_held_against_the_next_window() -> None:
    """b2 was said to get 0.5 and has 0.4: a quarter of the level; b1 was right."""
    point = played(recorded(), {0: [move(B, "b1", "b2", {"b1": 0.4, "b2": 0.5})]})[0].point
    assert point.n_checked == 2
    assert point.error_p50 == pytest.approx(0.125)
    assert point.error_p90 == pytest.approx(0.225)


def test_of_two_moves_the_later_prediction_counts() -> None:
    """C to b2 as well: what was predicted after B alone is not what the window will show."""
    moves = [move(B, "b1", "b2", EVEN), move(C, "b1", "b2", {"b1": 0.3, "b2": 0.5})]
    point = played(recorded(), {0: moves})[0].point
    assert (point.error_p90, point.n_checked) == (0.0, 2)


def test_a_move_that_is_undone_is_useless_and_thrash() -> None:
    """There and back: each broker's load goes by 0.2 up and down, all between 0.2 and 0.6."""
    point = played(recorded(), {0: [move(B, "b1", "b2")], 1: [move(B, "b2", "b1")]})[0].point
    assert point.moves_balance == 2
    assert (point.useless_moves, point.useless_rate) == (2, 1.0)  # the second makes the difference 0.4 again
    assert point.thrash_pct == pytest.approx(100 * 4 * 0.2 / 0.4)
    assert point.unavailable_bundle_s == 2.0


def test_a_move_that_only_swaps_who_is_hot_is_useless() -> None:
    """A and B to b2: 0.1 and 0.7, further apart than before."""
    point = played(recorded(), {0: [move(A, "b1", "b2"), move(B, "b1", "b2")]})[0].point
    assert (point.useless_moves, point.useless_rate) == (2, 1.0)
    assert point.max_best_worst == pytest.approx(0.7 / 0.4)


def test_moves_of_the_last_round_are_not_judged() -> None:
    point = played(recorded(), {2: [move(A, "b1", "b2"), move(B, "b1", "b2")]})[0].point
    assert (point.moves_balance, point.useless_moves, point.n_checked) == (2, 0, 0)


def test_a_move_to_an_empty_broker_is_an_addition() -> None:
    """b2 holds nothing at first; what it gets within ten rounds of that counts as filling it."""
    rounds = {0: [move(B, "b1", "b2")], 1: [move(C, "b1", "b2")], 11: [move(A, "b1", "b2")]}
    point = played(recorded(two={}, steps=26), rounds)[0].point
    assert (point.moves_addition, point.moves_balance) == (2, 1)


def test_a_removal_is_a_move_of_what_a_broker_left_behind() -> None:
    """b1 is gone from the fourth step on; b2 and b3 get its three bundles, each without service for 2 s."""
    reports = [r for at in range(8) for r in (report("b2", at, TWO), report("b3", at, ONE if at > 2 else {}))]
    reports += [report("b1", at, ONE) for at in range(3)]
    run, world, script = played(reports, {}, Replay(60_000, 3, 2_000))
    assert (run.point.moves_addition, run.point.moves_removal, run.point.moves_balance) == (0, 3, 0)
    assert run.timeline.moves == (0, 0, 0, 3, 0, 0, 0, 0)
    assert run.point.unavailable_bundle_s == 6.0
    assert run.point.useless_rate == 0.0
    assert script.seen[-1].brokers == ("b2", "b3")
    assert {m.target for m in world.moves} == {1, 2}, "spread by placement, not where they were recorded"


def test_overload_minutes_are_counted_by_broker_and_step() -> None:
    """b1 at 0.9 and b2 at 0.85 for six half minutes; 0.84 does not count."""
    assert played(recorded({A: 90.0}, {D: 85.0}), {})[0].point.overload_minutes == 6.0
    assert played(recorded({A: 90.0}, {D: 84.0}), {})[0].point.overload_minutes == 3.0


def test_the_best_achievable_is_of_bundles_that_may_be_cut() -> None:
    """A alone is 0.6; cut in two and halved between the brokers, nobody would have more than 0.35."""
    point = played(recorded({A: 60.0}, {D: 10.0}), {})[0].point
    assert point.max_best_mean == pytest.approx(0.6 / 0.35, abs=1e-6)


def test_no_strategy_is_better_than_the_best_achievable() -> None:
    """A is cut and its halves go apart: 0.3 and 0.4, less than A alone."""
    run, world, _ = played(recorded({A: 60.0}, {D: 10.0}), {0: [split(A, "b1", 0x20000000)]})
    assert world.splits == 1
    assert run.timeline.max_best[-1] == pytest.approx(0.4 / 0.35, abs=1e-6)
    assert min(run.timeline.max_best) >= 1.0


def test_the_best_achievable_knows_what_brokers_use_besides_their_bundles() -> None:
    """b1 uses half a core and carries nothing, b2 carries 0.2: the mean is 0.35, but b1 has 0.5 whatever is done."""
    reports = [r for at in range(STEPS) for r in (report("b1", at, {}, cpu=50.0), report("b2", at, TWO))]
    assert played(reports, {})[0].point.max_best_mean == pytest.approx(1.0)


def test_a_split_shares_by_the_width_of_the_ranges() -> None:
    """A is cut at three quarters of its range; the smaller half, 7.5, goes to the other broker at once."""
    run, world, script = played(recorded(), {0: [split(A, "b1", 0x30000000)]})
    assert (run.point.splits, run.point.moves_balance, run.point.useless_moves) == (1, 1, 0)
    after = script.seen[1]
    assert [after.bundles[at] for at in after.bundles_of(1)] == ["t/n/0x30000000_0x40000000", D]
    assert after.score.tolist() == [5_250, 2_750]
    assert run.timeline.max_best[-1] == pytest.approx(0.525 / 0.4)
    assert A not in after.bundles
    assert not world.prepared.present.shape[1] > 4


def test_without_auto_unload_both_halves_stay() -> None:
    settings = PolicySettings()
    world, _ = play(prepared_of(recorded()), Script({0: [split(A, "b1", 0x20000000)]}), settings)
    assert world.splits == 1
    assert len(world.moves) == 1
    off = PolicySettings(split=type(settings.split)(auto_unload=False))
    world, _ = play(prepared_of(recorded()), Script({0: [split(A, "b1", 0x20000000)]}), off)
    assert (world.splits, len(world.moves)) == (1, 0)


def test_without_any_load_nothing_is_uneven() -> None:
    point = played(recorded({A: 0.0}, {}), {})[0].point
    assert (point.max_best_mean, point.max_best_worst, point.cv_mean) == (1.0, 1.0, 0.0)


def test_load_is_conserved_whatever_moves() -> None:
    """All bundles to and fro, a split and a broker that leaves: 80 % of a core in every step."""
    rounds: dict[int, list[Decision]] = {
        0: [move(A, "b1", "b2"), move(D, "b2", "b1")],
        1: [split(B, "b1", 0x50000000), move(C, "b1", "b2"), move(A, "b2", "b1")],
    }
    reports = [r for at in range(5) for r in (report("b1", at, ONE), report("b2", at, TWO))]
    reports += [report("b2", at, ONE | TWO) for at in range(5, 10)]
    _, world, _ = played(reports, rounds)
    loads = broker_loads(world)
    assert np.nansum(loads, axis=1).tolist() == pytest.approx([0.8] * 10)
    assert np.isnan(loads[5:, 0]).all()
    assert {m.cause for m in world.moves} == {"balance", "split", "failover"}


def test_a_move_to_a_broker_that_is_not_there_is_a_bug() -> None:
    reports = [r for at in range(6) for r in ((report("b1", at, ONE),) if at > 1 else (report("b1", at, ONE), *GONE))]
    with pytest.raises(InvariantBroken, match=f"{A} to b2"):
        played(reports, {1: [move(A, "b1", "b2")]}, Replay(60_000, missed_steps=1))
