"""A scenario that draws everything: what the cluster is like, what it reports, and what happens to it.

The other scenarios vary one thing each, and a strategy can be built to suit them. Here one seed is three brokers of
which two run something else and report their CPU late, the next forty that are restarted while one tenant's traffic
triples. Single seeds say little; a hundred of them show what a strategy does where nobody has looked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.sim.field.cluster import BYTES_A_CORE, MESSAGE_BYTES, TENANTS, Cluster, Floats, Random, draw_cluster
from controller.sim.field.scenarios import DIURNAL_SWING, DRIFT_FACTORS, JOB_BUNDLES, JOB_FACTOR, ROUNDS, Story
from controller.sim.field.surprises import BASE_CPU, COST_BUNDLES, COST_CHANGES, FOREIGN_CPU, LATENESS, MESSAGE_SIGMA

BROKERS, BUNDLES_A_BROKER = (3, 4, 5, 8, 12, 20, 40), (4, 50)
UTILISATION, LARGEST, SIGMA = (0.15, 0.7), (0.15, 0.6), (0.3, 1.5)
CORES = (8.0, 16.0, 32.0)
NIC = (0.6e9, 1.25e9, 1.25e9, 5e9)
NOISE = (0.005, 0.03, 0.03, 0.06, 0.1)
INTERVAL_MS = (10_000, 30_000, 60_000, 60_000, 60_000, 180_000)
SLOW = (1.0, 1.6)
BEGINS, LASTS = (8, 25), 20  # rounds

Change = Callable[[int, Floats], bool]  # of a round, and of the bundles' factors [N]; true if brokers joined or left
Event = Callable[[Cluster, Random], Change]


def drawn(rng: Random) -> Story:
    """Draws everything: brokers, bundles, readings, and one or two events."""
    cluster = _draw(rng)
    if rng.random() < 0.5:
        cluster.pack()
    chosen = rng.choice(len(EVENTS), int(rng.integers(1, 3)), replace=False)
    changes = [EVENTS[at](cluster, np.random.default_rng(rng.integers(1 << 31))) for at in chosen.tolist()]

    def happen(number: int) -> bool:
        factor = np.ones(len(cluster.traffic))
        moved = [change(number, factor) for change in changes]
        cluster.factor = factor
        return any(moved)

    return Story(cluster, happen)


def _draw(rng: Random) -> Cluster:
    brokers = int(rng.choice(BROKERS))
    bundles = int(brokers * np.exp(rng.uniform(*np.log(BUNDLES_A_BROKER))))
    cluster = draw_cluster(
        rng, brokers, bundles,
        cores=rng.choice(CORES, brokers) if rng.random() < 0.3 else None,
        nic=float(rng.choice(NIC)),
        sigma=rng.uniform(*SIGMA),
        largest=rng.uniform(*LARGEST),
        utilisation=rng.uniform(*UTILISATION),
        noise=float(rng.choice(NOISE)),
        interval_ms=int(rng.choice(INTERVAL_MS)),
    )  # fmt: skip
    if rng.random() < 0.3:
        cluster.other_cpu = rng.uniform(*BASE_CPU, brokers)
    if rng.random() < 0.2:
        cluster.slow = rng.uniform(*SLOW, brokers)
    if rng.random() < 0.2:
        cluster.lateness = LATENESS
    if rng.random() < 0.3:
        cluster.message_bytes = MESSAGE_BYTES * rng.lognormal(-MESSAGE_SIGMA / 2, MESSAGE_SIGMA, bundles)
    return cluster


def _nothing(cluster: Cluster, rng: Random) -> Change:
    return lambda number, factor: False


def _walk(cluster: Cluster, rng: Random) -> Change:
    step, walked = rng.uniform(0.02, 0.1), np.ones(len(cluster.traffic))

    def change(number: int, factor: Floats) -> bool:
        np.clip(walked * np.exp(rng.normal(0, step, len(walked))), *DRIFT_FACTORS, out=walked)
        factor *= walked
        return False

    return change


def _swing(cluster: Cluster, rng: Random) -> Change:
    """Every tenant has its own time of day."""
    phase = cluster.tenant / TENANTS

    def change(number: int, factor: Floats) -> bool:
        factor *= 1 + DIURNAL_SWING * np.sin(2 * np.pi * (number / ROUNDS + phase))
        return False

    return change


def _heat(cluster: Cluster, rng: Random) -> Change:
    """A few bundles need up to two fifths of a broker each, for a while."""
    begins, hot = int(rng.integers(*BEGINS)), rng.choice(len(cluster.traffic), 3, replace=False)
    times = np.clip(0.4 * cluster.cores.mean() / (cluster.traffic * cluster.cost)[hot], 1, 8)

    def change(number: int, factor: Floats) -> bool:
        factor[hot] *= times if begins <= number < begins + LASTS else 1.0
        return False

    return change


def _surge(cluster: Cluster, rng: Random) -> Change:
    """One tenant's traffic grows at once, for a while."""
    begins, mine, times = int(rng.integers(*BEGINS)), cluster.tenant == rng.integers(TENANTS), rng.uniform(1.5, 4)

    def change(number: int, factor: Floats) -> bool:
        factor[mine] *= times if begins <= number < begins + LASTS else 1.0
        return False

    return change


def _jobs(cluster: Cluster, rng: Random) -> Change:
    """A sixth of the bundles carry more for a few rounds, again and again."""
    jobs = rng.choice(len(cluster.traffic), max(1, int(len(cluster.traffic) * JOB_BUNDLES)), replace=False)
    every, takes = int(rng.integers(6, 20)), int(rng.integers(1, 4))

    def change(number: int, factor: Floats) -> bool:
        factor[jobs] *= JOB_FACTOR if number % every < takes else 1.0
        return False

    return change


def _sleep(cluster: Cluster, rng: Random) -> Change:
    """Next to no traffic at first, and once more for a while."""
    wakes = int(rng.integers(*BEGINS))

    def change(number: int, factor: Floats) -> bool:
        factor *= 0.05 if number < wakes or wakes + LASTS <= number < wakes + LASTS + 8 else 1.0
        return False

    return change


def _ramp(cluster: Cluster, rng: Random) -> Change:
    """From a fifth of the traffic to all of it, slowly."""

    def change(number: int, factor: Floats) -> bool:
        factor *= min(1.0, 0.2 + 0.02 * number)
        return False

    return change


def _join(cluster: Cluster, rng: Random) -> Change:
    """A third of the brokers join late."""
    when, count = int(rng.integers(*BEGINS)), len(cluster.cores)

    def change(number: int, factor: Floats) -> bool:
        if number in (0, when):
            cluster.alive[count - count // 3 :] = number == when
            cluster.place_orphans(rng)
        return number == when

    return change


def _leave(cluster: Cluster, rng: Random) -> Change:
    """One broker leaves for good."""
    when, who = int(rng.integers(*BEGINS)), int(rng.integers(len(cluster.cores)))

    def change(number: int, factor: Floats) -> bool:
        if number == when:
            cluster.alive[who] = False
            cluster.place_orphans(rng)
        return number == when

    return change


def _restart(cluster: Cluster, rng: Random) -> Change:
    """One broker after the other is gone for two rounds and comes back empty."""

    def change(number: int, factor: Floats) -> bool:
        turn, since = divmod(number - 4, 4)
        if not 0 <= turn < len(cluster.cores) or since not in (0, 2):
            return False
        cluster.alive[:] = True
        cluster.alive[turn] = since == 2
        cluster.place_orphans(rng)
        return True

    return change


def _intrude(cluster: Cluster, rng: Random) -> Change:
    """A process that is none of ours takes a third of one broker, for a while."""
    begins, who, before = int(rng.integers(*BEGINS)), int(rng.integers(len(cluster.cores))), cluster.other_cpu.copy()

    def change(number: int, factor: Floats) -> bool:
        cluster.other_cpu[who] = before[who] + (FOREIGN_CPU if begins <= number < begins + LASTS else 0.0)
        return False

    return change


def _throttle(cluster: Cluster, rng: Random) -> Change:
    """One broker becomes slower for good."""
    begins, who, before = int(rng.integers(*BEGINS)), int(rng.integers(len(cluster.cores))), cluster.slow.copy()

    def change(number: int, factor: Floats) -> bool:
        cluster.slow[who] = before[who] * (1.8 if number >= begins else 1.0)
        return False

    return change


def _reprice(cluster: Cluster, rng: Random) -> Change:
    """A quarter of the bundles cost more or less for the same traffic, twice."""

    def change(number: int, factor: Floats) -> bool:
        if number in COST_CHANGES:
            some = rng.choice(len(cluster.traffic), int(len(cluster.traffic) * COST_BUNDLES), replace=False)
            cluster.cost[some] = 1 / rng.uniform(*BYTES_A_CORE, len(some))
        return False

    return change


EVENTS: tuple[Event, ...] = (
    _nothing, _walk, _swing, _heat, _surge, _jobs, _sleep, _ramp, _join, _leave,
    _restart, _intrude, _throttle, _reprice,
)  # fmt: skip
