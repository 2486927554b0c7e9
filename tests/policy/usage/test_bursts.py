"""Which part of a load is expected to last: of single bundles, and of most of a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from controller.policy.usage.bursts import FALL_ROUNDS, PATIENCE, follow
from controller.policy.usage.model import UsageModel
from controller.policy.view.costs import Floats

FOUR = ("a", "b", "c", "d")


def lasting_of(*loads: list[float]) -> list[Floats]:
    """What part of each load lasts, round by round."""
    states = UsageModel().aligned((), FOUR).bundles
    found = []
    for load in loads:
        states, lasting = follow(states, np.array(load), np.ones(len(FOUR)))
        found.append(lasting)
    return found


def lasting_of_all(*levels: float) -> list[float]:
    """The same where all bundles carry the same."""
    return [float(lasting[0]) for lasting in lasting_of(*([level] * len(FOUR) for level in levels))]


def test_a_rise_lasts_once_it_has_lasted() -> None:
    usual, risen = [10.0] * 4, [30.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *[risen] * PATIENCE)
    assert [float(lasting[0]) for lasting in found[6:]] == pytest.approx([1 / 3] * (PATIENCE - 1) + [1.0])
    assert all((lasting[1:] == 1).all() for lasting in found)


def test_a_bundle_that_had_bursts_is_given_longer() -> None:
    usual, risen = [10.0] * 4, [20.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *[risen] * 8, *[usual] * 6, *[risen] * 9)
    assert all(lasting[0] < 1 for lasting in found[20:])


def test_growth_of_a_quarter_a_round_is_no_burst() -> None:
    assert lasting_of_all(*(10 * 1.25**number for number in range(12))) == [1.0] * 12


def test_a_cluster_that_wakes_up_again_is_not_a_burst_of_all_its_bundles() -> None:
    """It was awake for a quarter of an hour before: long for a burst, and no reason to call all of its load passing."""
    found = lasting_of_all(*[1.0] * 6, *[50.0] * 15, *[1.0] * 6, *[50.0] * 8)
    assert found[-8:] == pytest.approx([1 / 50] * (PATIENCE - 1) + [1.0] * (9 - PATIENCE))


def test_a_rise_of_less_than_half_of_the_load_may_be_a_burst() -> None:
    usual, risen = [10.0] * 4, [24.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *[risen] * 8, *[usual] * 6, *[risen] * 8)
    assert all(lasting[0] < 1 for lasting in found[-8:])


def test_a_rise_that_stood_for_a_quarter_of_an_hour_is_no_burst_when_it_comes_back() -> None:
    """A move would have paid by then. To wait as long again, each time, would balance nothing of it, ever."""
    usual, risen = [10.0] * 4, [20.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *[risen] * 30, *[usual] * 30, *[risen] * 6)
    assert [lasting[0] < 1 for lasting in found[-6:]] == [True] * (PATIENCE - 1) + [False] * (7 - PATIENCE)


def test_what_comes_back_after_a_dip_is_no_rise() -> None:
    """A bundle that pauses for a minute in ten was judged by its pauses for ever."""
    usual, paused = [10.0] * 4, [2.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *([paused] * (FALL_ROUNDS - 1) + [usual] * 8) * 4)
    assert all((lasting == 1).all() for lasting in found)


def test_who_is_first_seen_in_a_dip_is_judged_by_it_once() -> None:
    usual, paused = [10.0] * 4, [2.0, 10.0, 10.0, 10.0]
    found = lasting_of(*([paused] + [usual] * 9) * 4)
    assert found[1][0] < 1
    assert all((lasting == 1).all() for lasting in found[PATIENCE + 1 :])


def test_a_fall_that_lasts_is_the_usual_load_from_then_on() -> None:
    usual, fallen = [10.0] * 4, [2.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 20, *[fallen] * FALL_ROUNDS, usual)
    assert found[-1][0] == pytest.approx(0.2)


def test_a_burst_that_a_dip_interrupts_is_still_one() -> None:
    usual, risen = [10.0] * 4, [20.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *[risen] * 2, usual, *[risen] * (PATIENCE - 1))
    assert all(lasting[0] == pytest.approx(0.5) for lasting in (*found[6:8], *found[9:]))


def test_what_goes_up_and_down_all_the_time_has_bursts_and_no_pauses() -> None:
    usual, low = [10.0] * 4, [2.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *([low] * 2 + [usual] * 2) * 6)
    assert all(lasting[0] == pytest.approx(0.2) for number, lasting in enumerate(found[12:]) if number % 4 in (0, 1)), [
        float(lasting[0]) for lasting in found
    ]


@pytest.mark.parametrize("rounds", [3, 6, 12])
def test_what_is_there_for_as_long_as_it_is_away_is_no_burst(rounds: int) -> None:
    """A batch job that runs half of the time: its broker is full half of the time, and nothing was ever moved."""
    usual, risen = [10.0] * 4, [24.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *(load for _ in range(5) for load in [risen] * rounds + [usual] * rounds))
    last = found[6 + 8 * rounds : 6 + 9 * rounds]
    assert [float(lasting[0]) for lasting in last] == [1.0] * rounds


def test_what_is_away_for_longer_is_one() -> None:
    usual, risen = [10.0] * 4, [24.0, 10.0, 10.0, 10.0]
    found = lasting_of(*[usual] * 6, *(load for _ in range(5) for load in [risen] * 5 + [usual] * 10))
    assert all(lasting[0] < 1 for lasting in found[-15:-10])
