"""The four placement strategies of Pulsar's modular manager.

Brokers are indices into a fixed tuple of ids. Every strategy returns a `Choice`: the broker, and the brokers it was
drawn from. Where Pulsar draws at random, a `Draw` with a given seed does, so that a round can be repeated.
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
    """A stream of pseudorandom numbers that its seed determines (splitmix64)."""

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
    """`broker`: its index, None without candidates. `among`: all equally good brokers."""

    broker: int | None
    among: tuple[int, ...]


NO_CHOICE = Choice(None, ())


class BundleToPlace(NamedTuple):
    """What a placement strategy knows about a bundle. `content` stands for Pulsar's BundleData as the key of a map."""

    long_msg_rate: float  # messages/s in + out, long-term average
    content: Hashable = None


class PlacementStrategy(Protocol):
    """One of Pulsar's placement strategies, with its state between selections."""

    def select(self, candidates: Ints, bundle: BundleToPlace, load: BrokerLoads) -> Choice:
        """Choose a broker among the candidates (indices, in Pulsar's iteration order)."""
        ...


class BrokerLoads:
    """The input of placement strategies, [B] each. `long_msg_rate` includes the rates of preallocated bundles."""

    def __init__(
        self, brokers: Sequence[str], usage: Floats, msg_rate: Floats, bundle_count: Ints, long_msg_rate: Floats
    ) -> None:
        self.brokers = brokers
        self.usage = usage  # max_usage_with_weight
        self.msg_rate = msg_rate  # messages/s in + out, as reported
        self.bundle_count = bundle_count
        self.long_msg_rate = long_msg_rate.copy()


class LeastLongTermMessageRate:
    """The broker with the least long-term message rate that is not overloaded; ties are drawn. The default.

    Overloaded means strictly above the threshold; if all brokers are, one is drawn. Surprise: below the threshold usage
    does not matter at all, so a broker at 84 % with few messages wins over an idle one with more.
    """

    def __init__(self, knobs: PulsarKnobs, draw: Draw) -> None:
        self._threshold = knobs.load_balancer_broker_overloaded_threshold_percentage / 100.0
        self._draw = draw

    def select(self, candidates: Ints, bundle: BundleToPlace, load: BrokerLoads) -> Choice:
        """See the class. Without candidates there is no choice."""
        rates = np.where(load.usage[candidates] > self._threshold, np.inf, load.long_msg_rate[candidates])
        return _draw_one(candidates[rates == rates.min(initial=np.inf)], self._draw)


class LeastResourceUsageWithWeight:
    """Draws one of the brokers whose historical usage is well below the candidates' mean, else one of all.

    Surprise: the history advances with every selection, so the number of lookups decides how fast it forgets.
    """

    def __init__(self, knobs: PulsarKnobs, draw: Draw, history: Mapping[str, float] | None = None) -> None:
        self._weight = knobs.load_balancer_history_resource_percentage
        self._difference = knobs.load_balancer_average_resource_usage_difference_threshold_percentage / 100.0
        self._draw = draw
        self.history: MutableMapping[str, float] = dict(history or {})

    def select(self, candidates: Ints, bundle: BundleToPlace, load: BrokerLoads) -> Choice:
        """See the class. The history of a broker without bundles or traffic (just restarted) starts from scratch."""
        if not len(candidates):
            return NO_CHOICE
        names = [load.brokers[at] for at in candidates.tolist()]
        before = np.array([self.history.get(name, np.nan) for name in names])
        before[(load.bundle_count[candidates] == 0) | (load.msg_rate[candidates] == 0)] = np.nan
        after = next_history(before, load.usage[candidates], self._weight)
        self.history.update(zip(names, after.tolist(), strict=True))
        mean = float(np.cumsum(after)[-1]) / len(after)  # summed one by one, as in Java
        best = candidates[after + self._difference <= mean]
        return _draw_one(best if len(best) else candidates, self._draw)

    def on_active_brokers_change(self, active: Sequence[str]) -> None:
        """Drop the histories of brokers that left."""
        self.history = {name: value for name, value in self.history.items() if name in active}


class RoundRobinBrokerSelector:
    """Takes brokers in turn, in a remembered order that is replaced when it no longer fits the candidates."""

    def __init__(self, count: int = 0, order: Sequence[str] = ()) -> None:
        self.count = count
        self.order = tuple(order)

    def select(self, candidates: Ints, bundle: BundleToPlace, load: BrokerLoads) -> Choice:
        """See the class. The counter returns to 0 after 2^31 - 1; without candidates it does not advance."""
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
    """AvgShedder.selectBroker: the broker that the shedder planned for the bundle if it is a candidate, else a draw.

    A drawn broker is remembered as well. Surprise: the map's key is the content of the bundle's load data. Bundles with
    equal data share one entry, so their plans mix; and since the data changes with every report, the entry is lost
    with the bundle's next report. (Pulsar changed the key to the bundle's name in 2026.)
    """

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._planned: dict[Hashable, int] = {}

    def plan(self, bundle: BundleToPlace, broker: int) -> None:
        """Note the broker that the shedder planned; this replaces the plan of another bundle with equal data."""
        self._planned[bundle.content] = broker

    def select(self, candidates: Ints, bundle: BundleToPlace, load: BrokerLoads) -> Choice:
        """See the class. Surprise: without candidates Pulsar divides by zero; here there is no choice."""
        if not len(candidates):
            return NO_CHOICE
        planned = self._planned.get(bundle.content)
        if planned is not None and bool((candidates == planned).any()):
            return Choice(planned, (planned,))
        by_name = sorted(candidates.tolist(), key=lambda at: load.brokers[at])
        number = self._draw.below(2**32) - 2**31  # Pulsar hashes the decimal digits of a random int
        chosen = by_name[zlib.crc32(str(number).encode()) % len(by_name)]
        self._planned[bundle.content] = chosen
        return Choice(chosen, tuple(by_name))


def _draw_one(best: Ints, draw: Draw) -> Choice:
    among = tuple(best.tolist())
    return Choice(among[draw.below(len(among))], among) if among else NO_CHOICE
