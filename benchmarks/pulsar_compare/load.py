"""The load of a play: topics, where their bundles are at its begin, and rates phase by phase. Pure; no dice.

Every bundle has two topics. At the begin each broker has bundles of the same eight weights, so loads are equal. A phase
chooses its topics by where they are when it begins, by the same rule for every balancer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import locate
from controller.testbed.pulsar.traffic.rates import heat

NAMESPACE = "bench/load"
WEIGHTS = (0.5, 0.7, 0.9, 1.0, 1.0, 1.1, 1.3, 1.5)  # of the bundles of one broker; their mean is 1
TOPICS_A_BUNDLE = 2
MESSAGE_BYTES = 1024
HALF = 0.5


@dataclass(frozen=True)
class Volume:
    """How much is sent: of all topics together, and how much more to the topics that are hot. `broker_cores`: the quota
    of each broker that it is measured for."""

    even_per_s: float
    hot_per_s: float
    broker_cores: float = 0.4


GUESS = Volume(900, 700)  # until it was measured (`calibration`)


@dataclass(frozen=True)
class Phase:
    """A part of a play: `what` is done when it begins, to the broker of that `number`."""

    name: str
    what: str
    number: int = 0


EVEN, SKEW, SHIFT, HALVE, KILL = "even", "skew", "shift", "halve", "kill"
PHASES = (
    Phase("even load", EVEN),
    Phase("the topics of one broker get hot", SKEW, 1),
    Phase("those of another broker instead", SHIFT, 2),
    Phase("the traffic of a third broker halves", HALVE, 3),
    Phase("a broker is killed and returns", KILL),
)


@dataclass(frozen=True)
class Layout:
    """Topics and bundles: where each topic belongs, what each weighs, and where each bundle is at the begin."""

    bundle_of: Mapping[str, str]
    weight_of: Mapping[str, float]
    start: Mapping[str, int]  # bundle -> index of a broker

    @property
    def topics(self) -> list[str]:
        """All topics."""
        return list(self.bundle_of)

    def even_rates(self, total_per_s: float) -> dict[str, float]:
        """Rates by which brokers are equally loaded at the begin."""
        unit = total_per_s / sum(self.weight_of.values()) / TOPICS_A_BUNDLE
        return {topic: unit * self.weight_of[bundle] for topic, bundle in self.bundle_of.items()}


def number_of_bundles(brokers: int) -> int:
    """Bundles of the namespace."""
    return len(WEIGHTS) * brokers


def lay_out(ring: Sequence[Bundle], brokers: int) -> Layout:
    """The layout on this ring: names are tried in order until every bundle has its topics."""
    topics: dict[str, list[str]] = {str(bundle): [] for bundle in ring}
    for number in count():
        topic = f"persistent://{NAMESPACE}/topic-{number:04}"
        inside = topics[str(locate(list(ring), topic_hash(topic)))]
        if len(inside) < TOPICS_A_BUNDLE:
            inside.append(topic)
        if all(len(found) == TOPICS_A_BUNDLE for found in topics.values()):
            break
    names = sorted(topics)
    return Layout(
        bundle_of={topic: name for name in names for topic in topics[name]},
        weight_of={name: WEIGHTS[at // brokers] for at, name in enumerate(names)},
        start={name: at % brokers for at, name in enumerate(names)},
    )


def rates_of_phase(
    phase: Phase, layout: Layout, volume: Volume, rates: Mapping[str, float], chosen: Mapping[str, str]
) -> dict[str, float]:
    """The rates from the begin of the phase. `rates`: those until then; `chosen`: topics of its broker -> bundle."""
    if phase.what == EVEN:
        return layout.even_rates(volume.even_per_s)
    if phase.what in (SKEW, SHIFT):
        return heat(layout.even_rates(volume.even_per_s), chosen, volume.hot_per_s)
    if phase.what == HALVE:
        return {topic: rate * HALF if topic in chosen else rate for topic, rate in rates.items()}
    return dict(rates)


def choose_broker(number: int, brokers: Sequence[str], serving: Mapping[str, str]) -> str:
    """The broker of that number (from 1), or the next one that serves a topic. `serving`: topic -> broker."""
    busy = set(serving.values())
    turned = [*brokers[number - 1 :], *brokers[: number - 1]]
    return next(name for name in turned if name in busy)
