"""Where Pulsar's modular manager puts a bundle: its four placement strategies.

Brokers are indices into a fixed tuple of ids. Every strategy answers with a `Choice`: the broker, and all among which
it was drawn. Where Pulsar draws at random, a `Draw` with a given seed does, so that the same round chooses the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import Ints
from controller.pulsar.load.load_data import Floats, next_history

_MASK = 2**64 - 1
INT_MAX = 2**31 - 1


class Draw:
    """A stream of numbers that looks random and follows from its seed (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return (z ^ (z >> 31)) % count


class Choice(NamedTuple):
    """`broker`: index, None when there is no candidate. `among`: all that were equally good."""

    broker: int | None
    among: tuple[int, ...]


NO_CHOICE = Choice(None, ())


class Bundle(NamedTuple):
    """What a placement is told of the bundle. `content` stands for Pulsar's BundleData as a key of a map."""

    long_msg_rate: float  # messages/s in + out, long-term average
    content: Hashable = None


class Placement(Protocol):
    """One of Pulsar's placement strategies with what it keeps between selections."""

    def select(self, candidates: Ints, bundle: Bundle, load: BrokerLoads) -> Choice:
        """A broker among the candidates (indices, in the order in which Pulsar would walk them)."""
        ...


class BrokerLoads:
    """What placements look at, [B] each. `long_msg_rate` has the rates of preallocated bundles in it."""

    def __init__(
        self, brokers: Sequence[str], usage: Floats, msg_rate: Floats, bundle_count: Ints, long_msg_rate: Floats
    ) -> None:
        self.brokers = brokers
        self.usage = usage  # max_usage_with_weight
        self.msg_rate = msg_rate  # messages/s in + out, as reported
        self.bundle_count = bundle_count
        self.long_msg_rate = long_msg_rate.copy()


class LeastLongTermMessageRate:
    """The least long-term message rate among brokers that are not overloaded; equal ones by lot. The default.

    Overloaded is strictly above the threshold; if all are, one of them by lot. Surprise: below the threshold usage
    plays no part at all, so a broker at 84 % with few messages is preferred to an idle one with more.
    """

    def __init__(self, knobs: PulsarKnobs, draw: Draw) -> None:
        self._threshold = knobs.load_balancer_broker_overloaded_threshold_percentage / 100.0
        self._draw = draw

    def select(self, candidates: Ints, bundle: Bundle, load: BrokerLoads) -> Choice:
        """See the class; no candidates, no choice."""
        rates = np.where(load.usage[candidates] > self._threshold, np.inf, load.long_msg_rate[candidates])
        return _by_lot(candidates[rates == rates.min(initial=np.inf)], self._draw)


class LeastResourceUsageWithWeight:
    """By lot among the brokers whose historical usage is well below the candidates' mean, else among all.

    Surprise: the history takes a step at every selection, so how fast it forgets hangs on how much is looked up.
    """

    def __init__(self, knobs: PulsarKnobs, draw: Draw, history: Mapping[str, float] | None = None) -> None:
        self._weight = knobs.load_balancer_history_resource_percentage
        self._difference = knobs.load_balancer_average_resource_usage_difference_threshold_percentage / 100.0
        self._draw = draw
        self.history: MutableMapping[str, float] = dict(history or {})

    def select(self, candidates: Ints, bundle: Bundle, load: BrokerLoads) -> Choice:
        """See the class. A broker without bundles or traffic (just restarted) starts its history anew."""
        if not len(candidates):
            return NO_CHOICE
        names = [load.brokers[at] for at in candidates.tolist()]
        before = np.array([self.history.get(name, np.nan) for name in names])
        before[(load.bundle_count[candidates] == 0) | (load.msg_rate[candidates] == 0)] = np.nan
        after = next_history(before, load.usage[candidates], self._weight)
        self.history.update(zip(names, after.tolist(), strict=True))
        mean = float(np.cumsum(after)[-1]) / len(after)  # added up one by one, as in Java
        best = candidates[after + self._difference <= mean]
        return _by_lot(best if len(best) else candidates, self._draw)

    def on_active_brokers_change(self, active: Sequence[str]) -> None:
        """Histories of brokers that left are dropped."""
        self.history = {name: value for name, value in self.history.items() if name in active}


class RoundRobinBrokerSelector:
    """One after the other in a remembered order, which is renewed when it no longer fits the candidates."""

    def __init__(self, count: int = 0, order: Sequence[str] = ()) -> None:
        self.count = count
        self.order = tuple(order)

    def select(self, candidates: Ints, bundle: Bundle, load: BrokerLoads) -> Choice:
        """See the class. The counter goes back to 0 after 2^31 - 1; no candidates do not advance it."""
        names = tuple(load.brokers[at] for at in candidates.tolist())
        if not names:
            return NO_CHOICE
        index = self.count % len(names)
        self.count = 0 if self.count == INT_MAX else self.count + 1
        if len(self.order) != len(names) or self.order[index] not in names:
            self.order = names
        chosen = int(candidates[names.index(self.order[index])])
        return Choice(chosen, (chosen,))


class AvgPlacement:
    """AvgShedder.selectBroker: where the shedder meant the bundle to go if that is a candidate, else by lot.

    What is drawn is remembered as well. Surprise: the map's key is the content of the bundle's load data. Bundles
    with equal data share one entry, so that plans cross; and as the data changes with every report, an entry is lost
    as soon as the bundle has reported again. (Pulsar changed the key to the bundle's name in 2026.)
    """

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._planned: dict[Hashable, int] = {}

    def plan(self, bundle: Bundle, broker: int) -> None:
        """What the shedder means for a bundle; overwrites the plan of another one with equal data."""
        self._planned[bundle.content] = broker

    def select(self, candidates: Ints, bundle: Bundle, load: BrokerLoads) -> Choice:
        """See the class. Surprise: without candidates Pulsar fails with a division by zero; here there is no choice."""
        if not len(candidates):
            return NO_CHOICE
        planned = self._planned.get(bundle.content)
        if planned is not None and bool((candidates == planned).any()):
            return Choice(planned, (planned,))
        by_name = sorted(candidates.tolist(), key=lambda at: load.brokers[at])
        number = self._draw.below(2**32) - 2**31  # Pulsar hashes the digits of a random int
        chosen = by_name[zlib.crc32(str(number).encode()) % len(by_name)]
        self._planned[bundle.content] = chosen
        return Choice(chosen, tuple(by_name))


def _by_lot(best: Ints, draw: Draw) -> Choice:
    among = tuple(best.tolist())
    return Choice(among[draw.below(len(among))], among) if among else NO_CHOICE
