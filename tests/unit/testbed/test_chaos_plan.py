"""Storms by seed: the same again, all kinds of faults in turn, nothing struck twice at a time."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from controller.testbed.chaos.faults import AGENT, FAULTS
from controller.testbed.chaos.plan import AT_ONCE, AT_ONCE_EVERY, STORM_S, Blow, storms

AGENTS = [f"broker-{number}" for number in range(1, 6)]
MANY = 60


def planned(seed: int, names: list[str] | None = None) -> list[tuple[Blow, ...]]:
    return list(islice(storms(seed, AGENTS, list(FAULTS) if names is None else names), MANY))


def test_a_seed_gives_its_storms_again_and_another_seed_others() -> None:
    assert planned(1) == planned(1)
    assert planned(1) != planned(2)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_struck_twice_in_a_storm_and_spans_are_within_bounds(seed: int) -> None:
    for storm in planned(seed):
        assert len({blow.target for blow in storm}) == len(storm)
        for blow in storm:
            fault = FAULTS[blow.fault]
            assert fault.least_s <= blow.span_s <= fault.most_s
            assert 0 <= blow.after_s <= STORM_S
            assert blow.target in AGENTS if fault.target == AGENT else blow.target == fault.target


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_has_its_turn(seed: int) -> None:
    struck = Counter(blow.fault for storm in planned(seed) for blow in storm)
    assert set(struck) == set(FAULTS)
    assert min(struck.values()) >= 3


def test_now_and_then_all_at_once() -> None:
    together = planned(3)[AT_ONCE_EVERY - 1 :: AT_ONCE_EVERY]
    for storm in together:
        assert sorted(blow.fault for blow in storm) == sorted(AT_ONCE)
        assert {blow.after_s for blow in storm} == {0.0}


def test_what_a_machine_does_not_allow_never_strikes() -> None:
    allowed = ["agent_killed", "agent_paused", "kafka_killed", "job_killed", "store_killed"]
    assert {blow.fault for storm in planned(5, allowed) for blow in storm} == set(allowed)
