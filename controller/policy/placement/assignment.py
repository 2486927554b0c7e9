"""Which broker gets a bundle that nobody owns, or that must leave where it is.

The order of preference is in `placement_order.py`: by load where a round has told of loads, else by count. Isolation is
no preference: other brokers than it allows are not chosen. Deterministic; no randomness to break ties. A thousand
bundles are placed on a thousand brokers without sorting the brokers for each bundle: by load the MOST_WEIGHED least
loaded ones are weighed up for it, which are all in a small cluster.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Set

from controller.domain.holdings import Holdings
from controller.policy.placement.limits import Group, PlacementLimits
from controller.policy.placement.loads import Cost, WhatIf
from controller.policy.placement.order import FINE_BAND, MOST_TOLD, SCORE_BAND, Standing, Weighed

MOST_WEIGHED = 8

Rank = tuple[int, int, int, str]


def rank(holdings: Holdings, namespace: str, broker: str, score: float) -> Rank:
    """By count, the least rank gets the bundle."""
    held = holdings.spread(namespace).get(broker, 0)
    return held, int(score / SCORE_BAND), holdings.total(broker), broker


class Placement:
    """Chooses among the brokers that may be granted something now; sees every grant made meanwhile.

    `holdings` returns the newest index; `scores`: eligible broker -> newest score, 0..1; `loads`: what to go by instead
    of scores and counts. Tell of each bundle that went from one broker to another, the model of loads first: standings
    are otherwise expected to grow only.
    """

    def __init__(
        self,
        holdings: Callable[[], Holdings],
        scores: Mapping[str, float],
        limits: PlacementLimits | None = None,
        loads: WhatIf | None = None,
    ) -> None:
        self._holdings = holdings
        self._scores = dict(scores)
        self.limits = limits
        self.loads = loads
        self._queues: dict[tuple[str, int | str], _Queue] = {}  # by namespace ("": without regard to one) and part

    def __contains__(self, broker: str) -> bool:
        return broker in self._scores

    def __len__(self) -> int:
        return len(self._scores)

    def allows(self, namespace: str, broker: str) -> bool:
        """Whether isolation allows the broker to the namespace."""
        return self.limits is None or broker in self.limits.allowed(namespace)

    def choose(
        self,
        namespace: str,
        barred: Set[str] = frozenset(),
        among: Collection[str] | None = None,
        leaving: str | None = None,
    ) -> str | None:
        """The broker that `weigh` prefers for a bundle of the namespace, or None."""
        found = self.weigh(namespace, barred, among, leaving, most=1)
        return found[0].broker if found else None

    def weigh(
        self,
        namespace: str,
        barred: Set[str] = frozenset(),
        among: Collection[str] | None = None,
        leaving: str | None = None,
        bundle: str | None = None,
        most: int = MOST_TOLD,
    ) -> list[Weighed]:
        """The brokers of the least standing that are not barred (of those named, if any are), the best first.

        `leaving`: where the bundle is now, if anywhere; there it does not count for its anti-affinity group. `bundle`:
        its name, where loads are to be asked for it.
        """
        allowed: Collection[str] = self._scores if self.limits is None else self.limits.allowed(namespace)
        group = None if self.limits is None else self.limits.group(namespace)
        known = self.loads is not None and bundle is not None and self.loads.known(bundle)
        many = most if self.loads is None else max(most, MOST_WEIGHED)
        if self.limits is not None and group is not None:
            found = self._apart(namespace, self.limits, group, (barred, among), leaving, many)
        elif among is not None:
            named = [b for b in among if b in self._scores and b in allowed and b not in barred]
            found = [(0, self._order(namespace, b)) for b in named]
        else:
            found = [(0, order) for order in self._least(namespace, allowed, barred, many, known)]
        if self.loads is None:
            weighed = [Weighed(order[-1], self._by_count(held, order), by_load=False) for held, order in found]
        else:
            cost, band = self.loads.cost(bundle or ""), FINE_BAND if known else SCORE_BAND
            spread = self._holdings().spread(namespace)
            weighed = [Weighed(o[-1], self._by_load(held, o, spread, cost, band), by_load=True) for held, o in found]
        weighed.sort(key=_standing)
        return weighed[:most]

    def moved(self, namespace: str, source: str | None, target: str | None) -> None:
        """A bundle of the namespace left one broker, which holds fewer than before, and came to another."""
        if self.limits is not None:
            self.limits.moved(namespace, source, target)
        if source is not None:
            self.lightened(source)

    def lightened(self, broker: str) -> None:
        """The broker holds fewer bundles than before."""
        for queue in self._queues.values():
            queue.push(broker)

    def _least(
        self, namespace: str, allowed: Collection[str], barred: Set[str], many: int, known: bool
    ) -> Iterable[Standing]:
        """The first brokers for a bundle of a namespace in no group, by their place in the order."""
        spread = self._holdings().spread(namespace)
        kind = 0 if self.limits is None else self.limits.kind_of(namespace)
        common = 2 * len(spread) < len(allowed)  # most brokers have none of it: the common order will do

        def elsewhere() -> list[Standing]:
            return self._queue("", kind, allowed).least(many, lambda broker: broker in spread or broker in barred)

        if self.loads is not None:
            found = self._queue("", kind, allowed).least(many, lambda broker: broker in barred)
            return dict.fromkeys([*found, *elsewhere()]) if common and not known else found
        if common and (found := elsewhere()) and not self._over_cap(found[0][-1]):
            return found
        return self._queue(namespace, kind, allowed).least(many, lambda broker: broker in barred)

    def _apart(
        self,
        namespace: str,
        limits: PlacementLimits,
        group: Group,
        rules: tuple[Set[str], Collection[str] | None],
        leaving: str | None,
        many: int,
    ) -> list[tuple[int, Standing]]:
        """The first brokers of each of the domains with the least of the group; those at the cap only when all are."""
        barred, among = rules
        brokers = limits.by_domain(namespace)
        at_home = None if leaving is None else limits.domain(leaving)
        held = {domain: group.by_domain.get(domain, 0) - (domain == at_home) for domain in brokers}
        for with_capped in (False, True) if self._capped() else (True,):

            def passed_over(b: str, with_capped: bool = with_capped) -> bool:
                return b in barred or (among is not None and b not in among) or (not with_capped and self._over_cap(b))

            found: list[tuple[int, Standing]] = []
            for domain in sorted(brokers, key=held.__getitem__):
                if found and held[domain] > found[0][0]:
                    break
                first = self._queue(namespace, domain, brokers[domain]).least(many, passed_over)
                found += [(held[domain], order) for order in first]
            if found:
                return found
        return []

    def _queue(self, namespace: str, part: int | str, brokers: Iterable[str]) -> _Queue:
        queue = self._queues.get((namespace, part))
        if queue is None:
            queue = self._queues[namespace, part] = _Queue(brokers, lambda b: self._order(namespace, b))
        return queue

    def _order(self, namespace: str, broker: str) -> Standing:
        """The broker's place in the order. By load it knows nothing of the bundle: as if each were a mean one, so that
        bigger brokers come first."""
        group = None if self.limits is None else self.limits.group(namespace)
        apart = 0 if group is None else group.by_broker.get(broker, 0)
        if self.loads is None:
            return self._over_cap(broker), apart, *rank(self._holdings(), namespace, broker, self._scores[broker])
        now = self.loads.standing(broker)
        return self._over_cap(broker), apart, now.full, now.typical, self._holdings().total(broker), broker

    def _by_count(self, in_domain: int, order: Standing) -> Standing:
        over_cap, apart, *own = order
        return over_cap, in_domain, apart, *own

    def _by_load(self, in_domain: int, order: Standing, spread: Mapping[str, int], cost: Cost, band: float) -> Standing:
        assert self.loads is not None
        over_cap, apart, full, _, total, broker = order
        after = self.loads.after(broker, cost)
        over_cap = over_cap or self.loads.would_exceed(broker, cost)
        return over_cap, in_domain, apart, full, int(after / band), spread.get(broker, 0), after, total, broker

    def _capped(self) -> bool:
        return self.loads is not None or (self.limits is not None and self.limits.max_bundles is not None)

    def _over_cap(self, broker: str) -> bool:
        most = None if self.limits is None else self.limits.max_bundles
        if most is not None and self._holdings().total(broker) >= most:
            return True
        return self.loads is not None and self.loads.standing(broker).at_cap


def _standing(weighed: Weighed) -> Standing:
    return weighed.standing


class _Queue:
    """Brokers in order. An entry whose standing has changed since is put right when it comes to the front."""

    def __init__(self, brokers: Iterable[str], key_of: Callable[[str], Standing]) -> None:
        self._key_of = key_of
        self._heap = [key_of(broker) for broker in brokers]
        self._brokers = frozenset(key[-1] for key in self._heap)
        heapq.heapify(self._heap)

    def push(self, broker: str) -> None:
        if broker in self._brokers:
            heapq.heappush(self._heap, self._key_of(broker))

    def least(self, most: int, passed_over: Callable[[str], bool]) -> list[Standing]:
        """The first brokers, at most so many, that are not passed over; the order stays as it is."""
        aside: set[Standing] = set()
        found: list[Standing] = []
        while self._heap and len(found) < most:
            seen = heapq.heappop(self._heap)
            now = self._key_of(seen[-1])
            if seen < now:
                heapq.heappush(self._heap, now)
            elif seen == now and seen not in aside:
                aside.add(seen)
                if not passed_over(now[-1]):
                    found.append(now)
        for kept in aside:
            heapq.heappush(self._heap, kept)
        return found
