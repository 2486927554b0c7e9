"""Storms by seed: the same again, all kinds of faults in turn, nothing struck twice at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from controller.process import failpoints
from controller.testbed.chaos.faults import AGENT, FAULTS, WITHOUT_MOUNT, Blow, Fault, possible_faults
from controller.testbed.chaos.plan import AT_ONCE, AT_ONCE_EVERY, STORM_S, storms
from controller.testbed.chaos.stage import JOB, KAFKA, STORE

AGENTS = [f"broker-{number}" for number in range(1, 6)]
MANY = 60


def planned(seed: int, kinds: Mapping[str, Fault] = FAULTS) -> list[tuple[Blow, ...]]:
    return list(islice(storms(seed, AGENTS, kinds), MANY))


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
    kinds = {name: FAULTS[name] for name in allowed}
    assert {blow.fault for storm in planned(5, kinds) for blow in storm} == set(allowed)


@pytest.mark.parametrize("seed", range(5))
def test_every_clock_is_stepped_in_both_directions(seed: int) -> None:
    steps = {(FAULTS[b.fault].target, b.step_s > 0) for storm in planned(seed) for b in storm if b.step_s}
    assert steps == {(target, ahead) for target in (AGENT, JOB, KAFKA, STORE) for ahead in (True, False)}
    assert {abs(b.step_s) for storm in planned(seed) for b in storm if "clock" not in b.fault} == {0}


def machine(mounts: bool, compiles: bool) -> Any:
    """As far as a stage tells what its machine allows."""
    clocks = {name: SimpleNamespace(usable=compiles) for name in (*AGENTS, JOB)}
    return SimpleNamespace(volume=SimpleNamespace(usable=mounts), clocks=clocks)


def test_tables_are_full_and_read_only_on_every_machine() -> None:
    assert possible_faults(machine(True, True)) == FAULTS
    kinds = possible_faults(machine(False, True))
    assert list(kinds) == list(FAULTS)
    assert {name for name in kinds if kinds[name] != FAULTS[name]} == set(WITHOUT_MOUNT)
    assert not [name for name in possible_faults(machine(True, False)) if "clock" in name]


@pytest.mark.parametrize("name", WITHOUT_MOUNT)
def test_without_a_mount_the_next_job_finds_no_room(name: str) -> None:
    started_with: list[str] = []
    stage: Any = SimpleNamespace(
        replace_controller=started_with.append, restart_job=lambda points="": started_with.append(points)
    )
    fault = WITHOUT_MOUNT[name]
    undo = fault.strike(stage, Blow(name, fault.target, 0.0, 1.0))
    (struck,) = started_with
    points = failpoints.parse(struck)
    assert (points["journal.append"].action, points["projection.write"].action) == ("error", "error")
    assert points["journal.append"].first == 2, "the job gets as far as its claim"
    assert all(point.times is not None for point in points.values()), "it ends"
    undo()
    assert started_with == [struck, ""], "what is left of it strikes nobody"
