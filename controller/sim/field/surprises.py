"""Further scenarios: what a strategy that was built on the first ones may not expect.

They vary what a simulator tends to hold constant: number of brokers and bundles, utilisation, noise, the time between
rounds, how fast a broker is, what it does besides serving bundles, and what a byte costs.
"""

from __future__ import annotations

import numpy as np

from controller.sim.field.cluster import BYTES_A_CORE, MESSAGE_BYTES, MINUTE_MS, TENANTS, Random, draw_cluster
from controller.sim.field.scenarios import EVENT, EVENT_ENDS, Scenario, Story, drifting, nothing

COST_CHANGES, COST_BUNDLES = (20, 40), 1 / 4  # rounds; the part of the bundles
SLOW_FACTOR = 2.0
SURGE_FACTOR = 3.0
RESTART_EVERY, RESTART_TAKES = 4, 2  # rounds
MESSAGE_SIGMA, MESSAGE_COST = 1.0, (0.8, 1.2)
BASE_CPU = (0.0, 0.25)
FOREIGN_CPU = 0.35
LATENESS, LATE_BASE_CPU, LATE_EVERY, LATE_BUNDLES, LATE_FACTOR = 0.6, (0.1, 0.3), 10, 6, 4.0
REPEATED_MS, REPEATS, REPEATED_EVERY = MINUTE_MS // 6, 6, 20
SPARSE_MS, SPARSE_DRIFT = 3 * MINUTE_MS, 0.1
WAKING_MS, WAKING_PACE = MINUTE_MS // 6, 0.35  # between rounds; the part of a change of traffic that a round brings
WAKING_CPU, WARM_CPU, WARMS_UP = 0.35, 0.05, 8.0  # used by anything but bundles: at first, in the end; rounds to 1 / e
WAKING_NIC, WAKING_FACTOR, WAKING_AT = 0.35, 3.0, (12, 28, 44)
LIGHT = 0.12  # utilisation
SPIKES, SPIKE_CPU = 0.05, 0.6  # of the rounds of each broker
DIPS, DIP_EVERY, DIP_FACTOR, DIPS_APART = 1 / 3, 10, 0.2, 0.3  # the part of the bundles; of those, the part elsewhere
NEIGHBOUR_CPU, NIGHT, MORNING = 0.6, 0.25, (15, 35)  # times the traffic at rest; rounds
DEAR, DEAR_BROKERS, DEAR_UTILISATION, UTILISATION_ELSEWHERE = 8.0, 3, 0.9, 0.35
ASLEEP, NAP, WAKES, NAPS, WAKES_AGAIN, TENFOLD = 0.01, 0.05, 10, 35, 45, 4  # times the traffic at rest; rounds


def costs(rng: Random) -> Story:
    """A quarter of the bundles costs more or less CPU for the same traffic from one minute to the next, twice."""
    cluster = draw_cluster(rng, 20, 400, utilisation=0.45)

    def happen(number: int) -> bool:
        if number in COST_CHANGES:
            chosen = rng.choice(400, round(400 * COST_BUNDLES), replace=False)
            cluster.cost[chosen] = 1 / rng.uniform(*BYTES_A_CORE, len(chosen))
        return False

    return Story(cluster, happen)


def slowdown(rng: Random) -> Story:
    """One broker of a balanced cluster becomes half as fast, for good, and reports the same limits."""
    cluster = draw_cluster(rng, 16, 320, utilisation=0.45)
    cluster.pack()

    def happen(number: int) -> bool:
        cluster.slow[3] = SLOW_FACTOR if number >= EVENT else 1.0
        return False

    return Story(cluster, happen)


def surge(rng: Random) -> Story:
    """One tenant's traffic triples at once in a balanced cluster, for 25 minutes."""
    cluster = draw_cluster(rng, 24, 480, utilisation=0.4, largest=0.25)
    cluster.pack()
    mine = cluster.tenant == rng.integers(TENANTS)

    def happen(number: int) -> bool:
        cluster.factor[mine] = SURGE_FACTOR if EVENT <= number < EVENT_ENDS else 1.0
        return False

    return Story(cluster, happen)


def restarts(rng: Random) -> Story:
    """Each of twelve balanced brokers in turn is gone for two minutes and comes back empty."""
    cluster = draw_cluster(rng, 12, 240, utilisation=0.4)
    cluster.pack()

    def happen(number: int) -> bool:
        turn, since = divmod(number - RESTART_EVERY, RESTART_EVERY)
        if not 0 <= turn < len(cluster.cores) or since not in (0, RESTART_TAKES):
            return False
        cluster.alive[turn] = since == RESTART_TAKES
        cluster.place_orphans(rng)
        return True

    return Story(cluster, happen)


def huge(rng: Random) -> Story:
    """Sixty bundles on twenty brokers: the largest need more than half of what an average broker carries."""
    return Story(draw_cluster(rng, 20, 60, sigma=0.8, largest=0.6), nothing)


def bandwidth(rng: Random) -> Story:
    """Network cards fill up long before the CPU does, and traffic drifts."""
    return drifting(draw_cluster(rng, 24, 480, utilisation=0.3, nic=0.75e9), rng)


def messages(rng: Random) -> Story:
    """A message costs about the same CPU however large it is, and sizes differ widely between bundles."""
    cluster = draw_cluster(rng, 18, 360, nic=3e9)
    size = MESSAGE_BYTES * rng.lognormal(-(MESSAGE_SIGMA**2) / 2, MESSAGE_SIGMA, 360)  # the mean is MESSAGE_BYTES
    cost = rng.uniform(*MESSAGE_COST, 360) / np.mean(BYTES_A_CORE) * MESSAGE_BYTES / size
    cluster.traffic *= cluster.cost / cost
    cluster.cost, cluster.message_bytes = cost, size
    return Story(cluster, nothing)


def base(rng: Random) -> Story:
    """Every broker uses up to a quarter of its CPU without any bundle, each another part."""
    cluster = draw_cluster(rng, 18, 360, utilisation=0.4)
    cluster.other_cpu = rng.uniform(*BASE_CPU, 18)
    return Story(cluster, nothing)


def foreign(rng: Random) -> Story:
    """A process that is none of ours takes a third of one broker's CPU in a balanced cluster, for 25 minutes."""
    cluster = draw_cluster(rng, 16, 320, utilisation=0.45)
    cluster.pack()

    def happen(number: int) -> bool:
        cluster.other_cpu[5] = FOREIGN_CPU if EVENT <= number < EVENT_ENDS else 0.0
        return False

    return Story(cluster, happen)


def precise(rng: Random) -> Story:
    """Eight well filled brokers whose readings are within 1 %."""
    return Story(draw_cluster(rng, 8, 120, utilisation=0.6, noise=0.01), nothing)


def noisy(rng: Random) -> Story:
    """Thirty brokers whose readings err by 8 %, while traffic drifts."""
    return drifting(draw_cluster(rng, 30, 900, noise=0.08), rng)


def sparse(rng: Random) -> Story:
    """A round only every three minutes, while traffic drifts faster than from round to round elsewhere."""
    return drifting(draw_cluster(rng, 20, 400, interval_ms=SPARSE_MS), rng, SPARSE_DRIFT)


def late(rng: Random) -> Story:
    """Three small brokers use CPU without any bundle and report it late; every ten minutes other bundles are hot."""
    cluster = draw_cluster(rng, 3, 24, sigma=0.4, utilisation=0.2)
    cluster.lateness, cluster.other_cpu = LATENESS, np.full(3, rng.uniform(*LATE_BASE_CPU))
    cluster.pack()

    def happen(number: int) -> bool:
        if number % LATE_EVERY == LATE_EVERY - 1:
            cluster.factor[:] = 1.0
            cluster.factor[rng.choice(24, LATE_BUNDLES, replace=False)] = LATE_FACTOR
        return False

    return Story(cluster, happen)


def repeated(rng: Random) -> Story:
    """A round every ten seconds, and each reading of CPU covers a minute and comes in six; brokers' bundles get hot."""
    cluster = draw_cluster(rng, 3, 24, sigma=0.4, utilisation=0.2, interval_ms=REPEATED_MS)
    cluster.reading_rounds, cluster.other_cpu = REPEATS, np.full(3, rng.uniform(*LATE_BASE_CPU))
    cluster.pack()
    began_on = cluster.owner.copy()

    def happen(number: int) -> bool:
        if number % REPEATED_EVERY == REPEATED_EVERY - 1:
            cluster.factor[:] = np.where(began_on == number // REPEATED_EVERY, LATE_FACTOR, 1.0)
        return False

    return Story(cluster, happen)


def waking(rng: Random) -> Story:
    """Three brokers that have just started, a round every ten seconds: CPU falls while traffic comes, then grows."""
    cluster = draw_cluster(rng, 3, 24, sigma=0.4, utilisation=0.06, interval_ms=WAKING_MS)
    most = cluster.traffic * np.maximum(1.0, cluster.fan_out)
    cluster.nic_bytes_per_s[:] = most.sum() / 3 / WAKING_NIC
    cluster.pack()
    began_on = cluster.owner.copy()
    cluster.factor[:] = wanted = np.full(24, ASLEEP)

    def happen(number: int) -> bool:
        nonlocal wanted
        cluster.other_cpu[:] = WARM_CPU + (WAKING_CPU - WARM_CPU) * np.exp(-number / WARMS_UP)
        if number == 3 or number in WAKING_AT:
            wanted = np.ones(24)
        if number in WAKING_AT:
            wanted[began_on == rng.integers(3)] = WAKING_FACTOR
        cluster.factor = cluster.factor + WAKING_PACE * (wanted - cluster.factor)
        return False

    return Story(cluster, happen)


def sleeping(rng: Random) -> Story:
    """Twelve brokers with different base loads carry next to nothing, then everything within minutes, twice."""
    cluster = draw_cluster(rng, 12, 240, utilisation=0.45)
    cluster.other_cpu = rng.uniform(0.05, BASE_CPU[1], 12)

    def happen(number: int) -> bool:
        awake = min(1.0, ASLEEP * 10 ** (max(0, number - WAKES) / TENFOLD))
        cluster.factor[:] = NAP if NAPS <= number < WAKES_AGAIN else awake
        return False

    return Story(cluster, happen)


def light(rng: Random) -> Story:
    """Three empty brokers join twelve that are balanced and hardly used; later one of these restarts, and is empty."""
    cluster = draw_cluster(rng, 15, 300, utilisation=LIGHT)
    cluster.alive[12:] = False
    cluster.pack()

    def happen(number: int) -> bool:
        if number == EVENT:
            cluster.alive[:] = True
        if number in (EVENT_ENDS, EVENT_ENDS + RESTART_TAKES):
            cluster.alive[0] = number > EVENT_ENDS
            cluster.place_orphans(rng)
        return number in (EVENT, EVENT_ENDS, EVENT_ENDS + RESTART_TAKES)

    return Story(cluster, happen)


def spikes(rng: Random) -> Story:
    """Every broker is kept busy by something else for a minute in twenty, at random, and then it is full."""
    cluster = draw_cluster(rng, 16, 320, utilisation=0.45)
    cluster.pack()

    def happen(number: int) -> bool:
        cluster.other_cpu = np.where(rng.random(16) < SPIKES, SPIKE_CPU, 0.0)
        return False

    return Story(cluster, happen)


def dips(rng: Random) -> Story:
    """A third of the bundles, most of them on the same four brokers, pauses for one minute in ten."""
    cluster = draw_cluster(rng, 12, 360)
    dipping, phase = rng.random(360) < DIPS, rng.integers(0, DIP_EVERY, 360)
    packed = dipping & (rng.random(360) > DIPS_APART)
    cluster.owner = np.where(packed, rng.integers(0, 4, 360), rng.integers(0, 12, 360))

    def happen(number: int) -> bool:
        cluster.factor = np.where(dipping & ((number + phase) % DIP_EVERY == 0), DIP_FACTOR, 1.0)
        return False

    return Story(cluster, happen)


def neighbours(rng: Random) -> Story:
    """Two of twelve machines are busy with something else, as all the others are at night; then traffic grows."""
    cluster = draw_cluster(rng, 12, 360, utilisation=0.4)
    cluster.pack()
    cluster.other_cpu[:2] = NEIGHBOUR_CPU

    def happen(number: int) -> bool:
        cluster.factor[:] = np.interp(number, MORNING, (NIGHT, 1.0))
        return False

    return Story(cluster, happen)


def dear(rng: Random) -> Story:
    """The traffic of some bundles costs eight times as much as that of others, and they are all on three brokers."""
    cluster = draw_cluster(rng, 12, 360, sigma=1.0)
    mine = np.arange(360) < 90
    cluster.owner = np.where(mine, np.arange(360) % DEAR_BROKERS, rng.integers(DEAR_BROKERS, 12, 360))
    cluster.cost[mine] *= DEAR
    for some, brokers, wanted in (
        (mine, DEAR_BROKERS, DEAR_UTILISATION), (~mine, 12 - DEAR_BROKERS, UTILISATION_ELSEWHERE)
    ):  # fmt: skip
        cluster.traffic[some] *= wanted * brokers * cluster.cores[0] / cluster.load()[some, 0].sum()
    return Story(cluster, nothing)


def crossed(rng: Random) -> Story:
    """Half of the brokers are full of bundles that need CPU, half of bundles that need bandwidth."""
    cluster = draw_cluster(rng, 12, 360)
    needs_cpu = np.arange(360) % 2 == 0
    cluster.owner = np.where(needs_cpu, rng.integers(0, 6, 360), rng.integers(6, 12, 360))
    cluster.cost[~needs_cpu] /= 20
    cluster.fan_out[needs_cpu] /= 20
    cluster.nic_bytes_per_s[:] = 2 * cluster.load()[:, 2].sum() / 12
    return Story(cluster, nothing)


SURPRISES: dict[str, Scenario] = {
    made.__name__: made
    for made in (
        costs, slowdown, surge, restarts, huge, bandwidth, messages, base, foreign, precise, noisy, sparse, late,
        repeated, waking, sleeping, light, spikes, dips, neighbours, dear, crossed,
    )
}  # fmt: skip
