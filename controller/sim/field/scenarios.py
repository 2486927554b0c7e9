"""The scenarios of the field: eight clusters that are or become unbalanced, and a calm one.

They have 12-20 brokers, 240-400 bundles, lognormal loads and a mean utilisation of 45-55 %, drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from controller.domain.load import RESOURCES
from controller.policy.view.frame import Ints
from controller.sim.field.field import BASE_CORES, CORE_PCT, EVENT_MINUTE, MINUTES, Floats, Random, World, costs_of

SIGMA = 0.7  # of the logarithm of a bundle's load
HOT_BUNDLES, HOT_FACTOR = 3, 8.0
PERIOD_MINUTES, BUSY_MINUTES, BUSY_FACTOR = 12, 3, 2.2
DIURNAL_PERIOD_MINUTES, DIURNAL_SWING, DIURNAL_GROUPS = 60, 0.5, 8
DRIFT_A_MINUTE = 0.04
CALM_SWING = 0.05


def _steady_factor(count: int) -> Callable[[int], Floats]:
    ones = np.ones(count)
    return lambda minute: ones


def base(rng: Random, cores: Floats | None = None, mean: tuple[float, float] = (0.45, 0.55)) -> World:
    """Brokers and bundles before placement: the first broker owns everything."""
    brokers, bundles = int(rng.integers(12, 21)), int(rng.integers(240, 401))
    if cores is None:
        cores = np.full(brokers, float(BASE_CORES))
    load = rng.lognormal(0.0, SIGMA, bundles)
    load *= rng.uniform(*mean) * cores.sum() * CORE_PCT / load.sum()
    share = rng.lognormal(0.0, 0.25, bundles)
    return World(
        cores=cores,
        load=load,
        bytes_share=share / share.mean(),
        inward=rng.uniform(0.35, 0.65, bundles),
        sessions=np.rint(rng.lognormal(3.0, 1.0, bundles)),
        owner=np.zeros(bundles, np.int64),
        factor=_steady_factor(bundles),
    )


def at_random(rng: Random, world: World, brokers: Ints | None = None, spread: float = 0.25) -> World:
    """Place each bundle on a random broker; some brokers are more likely than others."""
    chosen = np.arange(len(world.cores)) if brokers is None else brokers
    weight = rng.lognormal(0.0, spread, len(chosen))
    return replace(world, owner=rng.choice(chosen, len(world.load), p=weight / weight.sum()))


def place_evenly(world: World) -> World:
    """Place the heaviest bundle first, each on the broker with the lowest utilisation including it."""
    cost = costs_of(world.fields(0))[:, RESOURCES.index("cpu")]
    owner, used = np.zeros(len(cost), np.int64), np.zeros(len(world.cores))
    for at in np.argsort(-cost, kind="stable").tolist():
        owner[at] = int(np.argmin((used + cost[at]) / world.cores))
        used[owner[at]] += cost[at]
    return replace(world, owner=owner)


def skew(rng: Random) -> World:
    """Some brokers have more load than others."""
    return at_random(rng, base(rng), spread=0.4)


def hot(rng: Random) -> World:
    """Three bundles carry eight times their load from the tenth minute on."""
    world = at_random(rng, base(rng))
    after = np.ones(len(world.load))
    after[rng.choice(len(after), HOT_BUNDLES, replace=False)] = HOT_FACTOR
    before = np.ones(len(after))
    return replace(world, factor=lambda minute: after if minute >= EVENT_MINUTE else before)


def join(rng: Random) -> World:
    """A third of the brokers are new and empty."""
    world = base(rng)
    count = len(world.cores)
    return at_random(rng, world, rng.permutation(count)[: count - count // 3])


def leave(rng: Random) -> World:
    """One broker dies in the tenth minute; assignment places its bundles."""
    return replace(at_random(rng, base(rng)), dies_at=EVENT_MINUTE)


def diurnal(rng: Random) -> World:
    """Eight groups of tenants, each with its own peak in the hour."""
    world = at_random(rng, base(rng))
    group = rng.integers(0, DIURNAL_GROUPS, len(world.load))
    phase = rng.uniform(0, 1, DIURNAL_GROUPS)[group]
    return replace(
        world,
        factor=lambda minute: 1 + DIURNAL_SWING * np.sin(2 * np.pi * (minute / DIURNAL_PERIOD_MINUTES + phase)),
    )


def drift(rng: Random) -> World:
    """The load of every bundle drifts independently."""
    world = at_random(rng, base(rng))
    walk = np.exp(np.cumsum(rng.normal(0.0, DRIFT_A_MINUTE, (MINUTES, len(world.load))), axis=0))
    return replace(world, factor=lambda minute: walk[minute])


def hetero(rng: Random) -> World:
    """Brokers of 8, 16 and 32 cores with about as many bundles each."""
    count = int(rng.integers(12, 21))
    cores = rng.permutation(np.resize([8.0, 16.0, 32.0], count))
    return at_random(rng, base(rng, cores, (0.25, 0.35)))


def periodic(rng: Random) -> World:
    """Balanced except for a job: a sixth of the bundles carries 2.2 times its load for 3 of every 12 minutes."""
    world = place_evenly(base(rng))
    busy = np.ones(len(world.load))
    busy[rng.choice(len(busy), len(busy) // 6, replace=False)] = BUSY_FACTOR
    idle, phase = np.ones(len(busy)), int(rng.integers(0, PERIOD_MINUTES))
    return replace(world, factor=lambda minute: busy if (minute + phase) % PERIOD_MINUTES < BUSY_MINUTES else idle)


def calm(rng: Random) -> World:
    """Balanced; the load of every bundle varies by up to 5 % from minute to minute."""
    world = place_evenly(base(rng))
    swing = 1 + rng.uniform(-CALM_SWING, CALM_SWING, (MINUTES, len(world.load)))
    return replace(world, factor=lambda minute: swing[minute])


SCENARIOS: dict[str, Callable[[Random], World]] = {
    made.__name__: made for made in (skew, hot, join, leave, diurnal, drift, hetero, periodic, calm)
}
