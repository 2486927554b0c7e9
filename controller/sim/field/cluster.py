"""The truth of the field: a cluster whose bundles cost different amounts of CPU for a byte, and nobody says so.

Three resources count: CPU, bandwidth in, bandwidth out. A bundle's traffic never depends on its owner, so every player
faces the same minutes; what the traffic costs depends on the bundle, and on how fast its broker is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from controller.policy.view.frame import Ints

Floats = NDArray[np.float64]
Random = np.random.Generator

CPU, BANDWIDTH_IN, BANDWIDTH_OUT = range(3)
CORES = 16.0
NIC_BYTES_PER_S = 1.25e9  # each way, of a broker with `CORES` cores
BYTES_A_CORE = (2e7, 6e7)  # bytes/s in that one core carries: from the dearest bundles to the cheapest
FAN_OUT = (0.5, 3.0)  # bytes out for one in
MESSAGE_BYTES = 1_000.0
NOISE = 0.03
TENANTS = 8
MINUTE_MS = 60_000
UNEVEN = 1.5  # concentration of the brokers' shares of bundles: the smaller, the more uneven


@dataclass(eq=False)
class Cluster:
    """B brokers x N bundles. Scenarios change `factor`, `cost`, `alive`, `slow` and `other_cpu` as they go."""

    cores: Floats  # [B]
    nic_bytes_per_s: Floats  # [B] each way
    traffic: Floats  # [N] bytes/s in, at rest
    cost: Floats  # [N] cores for a byte/s in, on a broker at full speed
    fan_out: Floats  # [N] bytes out for one in
    message_bytes: Floats  # [N]
    topics: Floats  # [N]
    owner: Ints  # [N] index of the broker
    noise: float = NOISE  # standard deviation of what is measured, as a fraction
    interval_ms: int = MINUTE_MS  # between two rounds
    lateness: float = 0.0  # how much of a reading of CPU is of the round before
    reading_rounds: int = 1  # a reading of CPU covers so many rounds, and stands for as many after them

    def __post_init__(self) -> None:
        self.factor = np.ones(len(self.traffic))  # times the traffic at rest
        self.alive = np.ones(len(self.cores), bool)
        self.slow = np.ones(len(self.cores))  # times the CPU for the same work
        self.other_cpu = np.zeros(len(self.cores))  # used by anything but bundles, as a fraction

    @cached_property
    def tenant(self) -> Ints:
        """[N] of each bundle: eight tenants with about as many bundles each, one namespace each."""
        return np.arange(len(self.traffic)) // self.bundles_a_tenant

    @property
    def bundles_a_tenant(self) -> int:
        """Of the last tenant it may be fewer."""
        return -(-len(self.traffic) // TENANTS)

    def load(self) -> Floats:
        """[N x 3] what every bundle needs now: cores at full speed, bytes/s in, bytes/s out."""
        bytes_in = self.traffic * self.factor
        return np.column_stack([bytes_in * self.cost, bytes_in, bytes_in * self.fan_out])

    def capacity(self) -> Floats:
        """[B x 3] how much `load` every broker can carry."""
        return np.column_stack([self.cores / self.slow, self.nic_bytes_per_s, self.nic_bytes_per_s])

    def other(self) -> Floats:
        """[B x 3] utilisation without any bundle."""
        result = np.zeros((len(self.cores), 3))
        result[:, CPU] = self.other_cpu
        return result

    def utilisation(self) -> Floats:
        """[B x 3] 1 is the capacity; more than that is asked for, but cannot be used."""
        used = np.column_stack([np.bincount(self.owner, part, len(self.cores)) for part in self.load().T])
        return used / self.capacity() + self.other()

    def worst(self) -> Floats:
        """[living brokers] the utilisation of the fullest resource of each."""
        return np.asarray(self.utilisation()[self.alive].max(axis=1))

    def best_achievable(self) -> float:
        """A lower bound of the worst broker's utilisation, wherever whole bundles are placed.

        It is the largest of each resource's mean, what the biggest bundle alone makes of the broker that it suits best,
        and what a broker uses without bundles.
        """
        load, capacity, other = self.load(), self.capacity()[self.alive], self.other()[self.alive]
        mean = (load.sum(axis=0) + (other * capacity).sum(axis=0)) / capacity.sum(axis=0)
        biggest = (other + load.max(axis=0) / capacity).min(axis=0)
        return float(max(mean.max(), biggest.max(), other.max()))

    def place_orphans(self, rng: Random) -> None:
        """Give the bundles of brokers that are gone to random living ones; draws the same for any number of orphans."""
        chosen = rng.integers(0, int(self.alive.sum()), len(self.owner))
        orphans = ~self.alive[self.owner]
        self.owner[orphans] = np.flatnonzero(self.alive)[chosen[orphans]]

    def pack(self) -> None:
        """Balance the living brokers: the biggest bundle first, each where the fullest resource stays lowest."""
        load, capacity = self.load(), self.capacity()
        used = np.where(self.alive[:, None], self.other(), np.inf)
        for bundle in np.argsort(-(load / capacity.mean(axis=0)).max(axis=1), kind="stable").tolist():
            broker = int((used + load[bundle] / capacity).max(axis=1).argmin())
            self.owner[bundle] = broker
            used[broker] += load[bundle] / capacity[broker]


def draw_cluster(
    rng: Random, brokers: int, bundles: int, *, cores: Floats | None = None, nic: float = NIC_BYTES_PER_S,
    sigma: float = 1.2, largest: float = 0.4, utilisation: float = 0.5, noise: float = NOISE,
    interval_ms: int = MINUTE_MS,
) -> Cluster:  # fmt: skip
    """A cluster with lognormal bundles on random brokers, some of which are likelier than others.

    `utilisation`: of all cores at rest. `sigma`: of the logarithm of a bundle's CPU; `largest`: the most that one
    bundle needs at first, in average brokers. `nic`: bytes/s each way of a broker with 16 cores.
    """
    cores = np.full(brokers, CORES) if cores is None else cores
    weight = rng.lognormal(0.0, sigma, bundles)
    weight = np.minimum(weight, weight.sum() / brokers * largest)
    bytes_a_core = rng.uniform(*BYTES_A_CORE, bundles)
    return Cluster(
        cores=cores,
        nic_bytes_per_s=cores / CORES * nic,
        traffic=weight / weight.sum() * cores.sum() * utilisation * bytes_a_core,
        cost=1 / bytes_a_core,
        fan_out=rng.uniform(*FAN_OUT, bundles),
        message_bytes=np.full(bundles, MESSAGE_BYTES),
        topics=rng.integers(1, 60, bundles).astype(np.float64),
        owner=rng.choice(brokers, bundles, p=rng.dirichlet(np.full(brokers, UNEVEN))),
        noise=noise,
        interval_ms=interval_ms,
    )
