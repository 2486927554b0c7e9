"""The load offered to a simulated cluster: topics and their rates over time, a pure function of the seed.

A workload is a base (how load is spread over bundles and topics) times any number of shapes (`shapes.py`: how it
changes over time). The initial bundles are called groups: a topic belongs to one group for ever, whatever is split
later. Load is generated as CPU work and converted to messages by the cost model, so that `utilisation` is exact,
however much costs differ between groups. Random numbers are rounded to `DIGITS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import ConfigError
from controller.domain.ids import Bundle
from controller.domain.ring import initial_bundles, locate
from controller.sim.load.cost_model import DIGITS, CostModel
from controller.sim.load.shapes import Shape, World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SKEWS = ("equal", "uniform", "linear", "lognormal", "pareto")


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """The base load. `utilisation`: initial CPU work as a fraction of all initial cores.

    `sigma`: of the lognormal distribution of bundles in the cluster; `topic_sigma`: of topics in a bundle. `sessions`:
    producers and consumers of a topic. `fanout`: messages out per message in.
    """

    bundles: int = 240
    tenants: int = 6
    topics: int = 5
    skew: str = "lognormal"
    sigma: float = 1.0
    topic_sigma: float = 0.5
    utilisation: float = 0.5
    message_bytes: float = 1024.0
    fanout: float = 1.0
    sessions: int = 8

    def __post_init__(self) -> None:
        for name in ("bundles", "tenants", "topics"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} of a load: at least 1")
        if self.tenants > self.bundles:
            raise ConfigError(f"{self.tenants} tenants of {self.bundles} bundles: every tenant needs one")
        if self.skew not in SKEWS:
            raise ConfigError(f"skew={self.skew!r} is none of {', '.join(SKEWS)}")


@dataclass(frozen=True, eq=False)
class Topics:
    """T topics; arrays of length T. `work`: initial CPU microseconds per second."""

    groups: tuple[Bundle, ...]  # the initial bundles
    group: Ints
    tenant_of_group: Ints
    namespace: Ints  # index into namespaces
    namespaces: tuple[str, ...]
    hash: Ints
    work: Floats
    message_bytes: Floats
    cost_factor: Floats  # times what the cost model says of a message and a KiB; of the topic's group
    sessions: Ints


@dataclass(frozen=True, eq=False)
class Rates:
    """[T] each: messages/s and bytes/s in and out."""

    msg_in: Floats
    msg_out: Floats
    bytes_in: Floats
    bytes_out: Floats


class Workload:
    """Topics, and the load offered to each over time."""

    def __init__(
        self, spec: LoadSpec, shapes: Sequence[Shape], costs: CostModel, cores: float, duration_ms: int, seed: int
    ) -> None:
        self.spec = spec
        factors = costs.draw_factors(spec.bundles, np.random.default_rng([seed, 5]))
        self.topics = _topics(spec, cores, factors, np.random.default_rng([seed, 1]))
        world = World(len(self.topics.groups), self.topics.tenant_of_group, duration_ms)
        self._series = [
            shape.series(world, np.random.default_rng([seed, 2, number])) for number, shape in enumerate(shapes)
        ]
        topics = self.topics
        each_us = costs.message_us(topics.message_bytes) * topics.cost_factor
        # one message in and `fanout` messages out make a topic's work
        self._messages_a_unit = topics.work / (each_us * (1.0 + spec.fanout))

    def at(self, time_ms: int) -> Rates:
        """The load offered at this time, whoever serves it."""
        factor = np.ones(len(self.topics.groups))
        for series in self._series:
            factor *= np.round(np.maximum(series(time_ms), 0.0), DIGITS)
        msg_in = self._messages_a_unit * factor[self.topics.group]
        msg_out = msg_in * self.spec.fanout
        return Rates(msg_in, msg_out, msg_in * self.topics.message_bytes, msg_out * self.topics.message_bytes)


class TopicMap:
    """Maps topics to live bundles; rebuilt when a ring changes."""

    def __init__(self, topics: Topics, rings: Mapping[str, tuple[Bundle, ...]]) -> None:
        living = [rings[name] for name in topics.namespaces]
        self.rings = {name: rings[name] for name in topics.namespaces}
        self.bundles: tuple[Bundle, ...] = tuple(bundle for ring in living for bundle in ring)
        self.index = {bundle: at for at, bundle in enumerate(self.bundles)}
        self.names = tuple(map(str, self.bundles))
        first = np.cumsum([0, *map(len, living)])
        self.bundle = np.empty(len(topics.hash), np.int64)  # [T]
        for number, ring in enumerate(living):
            chosen = topics.namespace == number
            lowers = np.array([bundle.lower for bundle in ring])
            self.bundle[chosen] = first[number] + np.searchsorted(lowers, topics.hash[chosen], side="right") - 1
        self.cost_factor = np.ones(len(self.bundles))  # [N] the topics of a bundle share one, as they do a group
        self.cost_factor[self.bundle] = topics.cost_factor

    def still_holds(self, rings: Mapping[str, tuple[Bundle, ...]]) -> bool:
        """Whether no ring has changed since."""
        return all(rings[name] is ring for name, ring in self.rings.items())

    def sums(self, values: Floats | Ints) -> Floats:
        """[N] sums of the topics' values, by live bundle."""
        return np.asarray(np.bincount(self.bundle, values, len(self.bundles)), np.float64)


def namespaces_of(spec: LoadSpec) -> dict[str, int]:
    """Namespace -> initial number of bundles: one namespace per tenant, as equal as possible."""
    shares = np.full(spec.tenants, spec.bundles // spec.tenants)
    shares[: spec.bundles % spec.tenants] += 1
    return {f"t{number}/load": int(count) for number, count in enumerate(shares.tolist())}


def _topics(spec: LoadSpec, cores: float, factors: Floats, dice: np.random.Generator) -> Topics:
    spaces = namespaces_of(spec)
    rings = [tuple(initial_bundles(name, count)) for name, count in spaces.items()]
    groups = tuple(bundle for ring in rings for bundle in ring)
    tenant = np.repeat(np.arange(len(rings)), [len(ring) for ring in rings])
    weight = _weights(spec, dice)
    group = np.repeat(np.arange(len(groups)), spec.topics)
    share = np.exp(spec.topic_sigma * dice.standard_normal(len(group)))
    share /= np.repeat(share.reshape(len(groups), spec.topics).sum(axis=1), spec.topics)
    work_us = np.round(weight[group] * share, DIGITS) * spec.utilisation * cores * 1e6
    lower = np.array([bundle.lower for bundle in groups])[group]
    upper = np.array([bundle.upper for bundle in groups])[group]
    sizes = spec.message_bytes * np.exp(0.5 * dice.standard_normal(len(groups)))
    topics = Topics(
        groups=groups,
        group=group,
        tenant_of_group=tenant,
        namespace=tenant[group],
        namespaces=tuple(spaces),
        hash=dice.integers(lower, upper),
        work=work_us,
        message_bytes=np.maximum(np.rint(sizes), 1.0)[group],
        cost_factor=factors[group],
        sessions=np.full(len(group), spec.sessions),
    )
    _check_hashes(topics)
    return topics


def _weights(spec: LoadSpec, dice: np.random.Generator) -> Floats:
    """[groups] shares of the load, summing to 1."""
    count = spec.bundles
    if spec.skew == "equal":
        weight = np.ones(count)
    elif spec.skew == "uniform":
        weight = dice.uniform(0.2, 1.8, count)
    elif spec.skew == "linear":
        weight = dice.permutation(np.arange(1.0, count + 1))
    elif spec.skew == "lognormal":
        weight = np.exp(spec.sigma * dice.standard_normal(count))
    else:
        weight = 1.0 + dice.pareto(max(1.1, 3.0 - spec.sigma), count)  # a larger sigma gives a heavier tail
    return np.asarray(weight / weight.sum())


def _check_hashes(topics: Topics) -> None:
    """Check the first and the last topic with the ring's own lookup, which would reveal any shift."""
    for at in (0, len(topics.hash) - 1):
        group = topics.groups[topics.group[at]]
        ring = [bundle for bundle in topics.groups if bundle.namespace == group.namespace]
        if locate(ring, int(topics.hash[at])) != group:
            raise ConfigError(f"topic {at} with hash {topics.hash[at]} lies outside of {group}")
