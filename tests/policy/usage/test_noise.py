"""The noise of readings is learned, on clusters where it is known here; what else makes readings jump is no noise."""

from __future__ import annotations

import numpy as np
import pytest

from controller.policy.usage.model import NOISE
from controller.policy.usage.noise import LARGEST, SMALLEST
from controller.policy.view.estimates import Estimates
from tests.policy.usage.test_usage_model import World, even

ROUNDS = 40


def scatter(world: World, noise: float, rounds: int = ROUNDS, seed: int = 1) -> Estimates:
    """Rounds whose readings err by so much, a standard deviation."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        world.stale = {name: world.cpu(name) * (1 + noise * rng.normal()) for name in world.base}
        estimates = world.round()
    return estimates


@pytest.mark.parametrize("noise", [0.015, 0.03, 0.08])
def test_the_noise_of_readings_is_learned(noise: float) -> None:
    found = []
    for seed in range(5):
        world = even(brokers=12)
        scatter(world, noise, seed=seed)
        found.append(world.model.noise)
    assert np.mean(found) == pytest.approx(noise, rel=0.15)


def test_of_brokers_whose_readings_scatter_more_less_is_known() -> None:
    precise, noisy = (scatter(even(), noise).broker("cpu_error") for noise in (0.01, 0.08))
    assert (noisy > 2 * precise).all()


def test_what_begins_and_ends_on_two_brokers_of_six_is_no_noise() -> None:
    world = even()
    for at in range(ROUNDS):
        busy = 30.0 if at % 4 < 2 else 0.0
        world.base |= {"b0": busy, "b1": busy}
        scatter(world, 0.015, rounds=1, seed=at)
    assert world.model.noise < NOISE


def test_traffic_that_changes_is_no_noise() -> None:
    world, rng = even(), np.random.default_rng(1)
    for _ in range(ROUNDS):
        world.traffic = [float(points) for points in rng.uniform(2.0, 8.0, len(world.traffic))]
        late = {name: world.cpu(name) for name in world.base}  # readings tell it a round later
        world.round()
        world.stale = late
    assert world.model.noise < 1.5 * NOISE


def test_a_figure_that_comes_again_says_nothing_of_noise() -> None:
    world, rng = even(), np.random.default_rng(1)
    for at in range(ROUNDS):
        if at % 6 == 0:
            world.stale = {name: world.cpu(name) * (1 + 0.08 * rng.normal()) for name in world.base}
        world.round()
    assert world.model.noise > NOISE, "the five readings without a difference count for nothing"


def test_two_brokers_tell_nothing_and_what_is_learned_has_bounds() -> None:
    pair, still, wild = even(brokers=2), even(), even()
    scatter(pair, 0.08)
    assert pair.model.noise == NOISE
    still.rounds(ROUNDS)
    assert still.model.noise == NOISE, "figures that stay the same, to the last digit, are not read anew"
    scatter(wild, 0.25)
    assert SMALLEST < wild.model.noise <= LARGEST
