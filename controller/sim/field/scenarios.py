"""The scenarios of the field: seven clusters that are or become unbalanced, two that need nothing, and a big one.

A scenario draws a cluster and what happens to it, round by round. The first line of its docstring is its purpose, which
docs/strategies.md shows. No scenario looks at what a player does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from controller.sim.field.cluster import TENANTS, Cluster, Random, draw_cluster

ROUNDS = 60
EVENT, EVENT_ENDS = 15, 40  # rounds
HOT_BUNDLES, HOT_FACTOR, HOT_BROKERS = 3, 8.0, 0.45
DIURNAL_SWING = 0.6
DRIFT = 0.06  # standard deviation of the logarithm of a bundle's traffic, a round
DRIFT_FACTORS = (0.2, 5.0)
JOB_EVERY, JOB_TAKES, JOB_FACTOR, JOB_BUNDLES = 12, 3, 2.2, 1 / 6  # in rounds; the part of the bundles
CALM_SWING = 0.05


@dataclass(frozen=True, eq=False)
class Story:
    """A cluster, and what happens before round `number`: true if brokers joined or left."""

    cluster: Cluster
    happen: Callable[[int], bool]


Scenario = Callable[[Random], Story]


def nothing(number: int) -> bool:
    """Nothing happens."""
    return False


def drifting(cluster: Cluster, rng: Random, step: float = DRIFT) -> Story:
    """Every bundle's traffic walks on its own."""

    def happen(number: int) -> bool:
        walked = cluster.factor * np.exp(rng.normal(0.0, step, len(cluster.factor)))
        cluster.factor = np.clip(walked, *DRIFT_FACTORS)
        return False

    return Story(cluster, happen)


def skew(rng: Random) -> Story:
    """Some brokers begin with several times the load of others."""
    return Story(draw_cluster(rng, 20, 400), nothing)


def hot(rng: Random) -> Story:
    """Three bundles grow up to eightfold, to almost half a broker each, and shrink again after 25 minutes."""
    cluster = draw_cluster(rng, 20, 400, utilisation=0.45)
    chosen = rng.choice(400, HOT_BUNDLES, replace=False)
    grown = np.minimum(HOT_FACTOR, HOT_BROKERS * cluster.cores.mean() / cluster.load()[chosen, 0])

    def happen(number: int) -> bool:
        cluster.factor[chosen] = grown if EVENT <= number < EVENT_ENDS else 1.0
        return False

    return Story(cluster, happen)


def join(rng: Random) -> Story:
    """Five empty brokers join ten."""
    cluster = draw_cluster(rng, 15, 300, utilisation=0.45)
    cluster.alive[10:] = False
    cluster.place_orphans(rng)

    def happen(number: int) -> bool:
        cluster.alive[:] = number >= EVENT or cluster.alive
        return number == EVENT

    return Story(cluster, happen)


def leave(rng: Random) -> Story:
    """One of twelve brokers dies; its bundles come up on others at random."""
    cluster = draw_cluster(rng, 12, 240)

    def happen(number: int) -> bool:
        if number == EVENT:
            cluster.alive[0] = False
            cluster.place_orphans(rng)
        return number == EVENT

    return Story(cluster, happen)


def diurnal(rng: Random) -> Story:
    """Eight tenants, each of which has its own peak within the hour."""
    cluster = draw_cluster(rng, 20, 400)

    def happen(number: int) -> bool:
        cluster.factor = 1 + DIURNAL_SWING * np.sin(2 * np.pi * (number / ROUNDS + cluster.tenant / TENANTS))
        return False

    return Story(cluster, happen)


def drift(rng: Random) -> Story:
    """The traffic of every bundle walks on its own."""
    return drifting(draw_cluster(rng, 20, 400), rng)


def hetero(rng: Random) -> Story:
    """Brokers of 8, 16 and 32 cores begin with about as many bundles each."""
    return Story(draw_cluster(rng, 20, 400, cores=np.repeat([8.0, 16.0, 32.0], [10, 6, 4])), nothing)


def periodic(rng: Random) -> Story:
    """Balanced, but for a job on a sixth of the bundles in 3 of every 12 minutes: a move gains little."""
    cluster = draw_cluster(rng, 20, 400, utilisation=0.4)
    cluster.pack()
    jobs = rng.choice(400, round(400 * JOB_BUNDLES), replace=False)

    def happen(number: int) -> bool:
        cluster.factor[jobs] = JOB_FACTOR if number % JOB_EVERY < JOB_TAKES else 1.0
        return False

    return Story(cluster, happen)


def calm(rng: Random) -> Story:
    """Balanced; every bundle stays within 5 % of its load: every move is wasted."""
    cluster = draw_cluster(rng, 20, 2_000, sigma=0.5)
    cluster.pack()

    def happen(number: int) -> bool:
        cluster.factor = 1 + rng.uniform(-CALM_SWING, CALM_SWING, len(cluster.factor))
        return False

    return Story(cluster, happen)


def big(rng: Random) -> Story:
    """Two hundred brokers with 20,000 bundles begin unbalanced, and drift."""
    return drifting(draw_cluster(rng, 200, 20_000), rng)


SEVEN: dict[str, Scenario] = {made.__name__: made for made in (skew, hot, join, leave, diurnal, drift, hetero)}
QUIET: dict[str, Scenario] = {made.__name__: made for made in (periodic, calm)}
BIG: dict[str, Scenario] = {big.__name__: big}
