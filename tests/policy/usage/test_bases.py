"""Bases: what new processes without traffic show, for themselves and for the others, and what they must not."""

from __future__ import annotations

import numpy as np
import pytest

from controller.domain.settings.policy import PolicySettings
from controller.policy.view.estimates import Estimates
from controller.sim.field.observation import Observer
from controller.sim.field.players import StrategyPlayer
from controller.sim.field.scenarios import EVENT, SEVEN
from tests.policy.usage.test_usage_model import POINT, World

OLD = ("b0", "b1", "b2", "b3")
BUNDLES = [3.0] * 10  # points of CPU
REFILLED = 0.8  # of the mean of all brokers
ROUNDS = 4


def joined(*readings: float, base: float = 24.0) -> tuple[World, Estimates]:
    """Four balanced brokers, of which nobody can tell what is base, and new ones without traffic."""
    world = World(dict.fromkeys(OLD, BUNDLES), base)
    world.rounds(8)
    assert all(shown < base / 2 for shown in bases(world.round())[: len(OLD)])
    for at, reading in enumerate(readings):
        world.base[f"n{at}"], world.speed[f"n{at}"], world.incarnation[f"n{at}"] = reading, 1.0, 1
    return world, world.round()


def bases(estimates: Estimates) -> list[float]:
    return [float(base) / POINT for base in estimates.broker("cpu_base")]


class TestShownByNewProcesses:
    def test_three_that_agree_show_the_base_of_all_at_once(self) -> None:
        world, estimates = joined(24.0, 24.5, 23.5)
        assert bases(estimates)[: len(OLD)] == pytest.approx([23.5] * len(OLD), abs=1.5)
        costs = estimates.bundle("cpu_cost") / POINT
        assert costs.sum() == pytest.approx(sum(world.traffic), rel=0.15), "they were thought to cost almost twice that"

    def test_what_brokers_use_altogether_is_expected_as_before(self) -> None:
        _, estimates = joined(24.0, 24.5, 23.5)
        assert (estimates.broker("cpu_used") / POINT)[: len(OLD)] == pytest.approx([54.0] * len(OLD), rel=0.05)

    @pytest.mark.parametrize(
        "readings",
        [
            pytest.param((24.0, 24.0), id="too few"),
            pytest.param((24.0, 24.0, 29.0), id="they differ: some may be busy with their start"),
            pytest.param((36.0, 36.0, 36.0), id="more than a base"),
            pytest.param((0.5, 0.5, 0.5), id="no base"),
        ],
    )
    def test_the_others_stay_as_they_are(self, readings: tuple[float, ...]) -> None:
        _, estimates = joined(*readings)
        assert max(bases(estimates)[: len(OLD)]) < 12.0

    def test_brokers_that_have_lost_their_bundles_show_nothing(self) -> None:
        """Something else may run there: that is why they were relieved."""
        world = World(dict.fromkeys([*OLD, "b4", "b5", "b6"], BUNDLES))
        world.rounds(8)
        for at, owner in enumerate(world.owner):
            if owner in ("b4", "b5", "b6"):
                world.owner[at] = OLD[at % len(OLD)]
        for name in ("b4", "b5", "b6"):
            world.base[name] = 24.0
        assert max(bases(world.round())[: len(OLD)]) < 2.0


@pytest.mark.parametrize("base", [0.0, 0.12, 0.25])
@pytest.mark.parametrize("seed", [4, 5, 9])
def test_brokers_that_join_are_filled_within_four_rounds(base: float, seed: int) -> None:
    dice = np.random.default_rng(seed)
    story = SEVEN["join"](dice)
    cluster = story.cluster
    cluster.traffic *= (0.45 - 0.75 * base) / 0.45  # the old ones are not overloaded
    cluster.other_cpu[:] = base
    new = ~cluster.alive
    observer = Observer(cluster, dice)
    player = StrategyPlayer("steady", PolicySettings(), observer)
    for number in range(EVENT + ROUNDS):
        changed = story.happen(number)
        for bundle, broker in player.decide(observer.observe(number, changed)):
            cluster.owner[bundle] = broker
    used = cluster.worst()
    assert new.any()
    assert used[new].min() >= REFILLED * used.mean()
