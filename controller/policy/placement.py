"""Which broker gets a bundle that nobody owns, or that must leave where it is.

The order of preference, each deciding only among those left by the one before: below the cap on bundles, the least of
an anti-affinity group (in the failure domain, then on the broker), fewest bundles of the same namespace (a namespace
spreads over all brokers; Pulsar: loadBalancerDistributeBundlesEvenlyEnabled), then the lower band of load score, then
fewest bundles in all, then the broker id. Isolation is no preference: other brokers than it allows are not chosen.
Deterministic; no randomness to break ties. A thousand bundles are placed on a thousand brokers without sorting the
brokers for each bundle.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Set

from controller.domain.holdings import Holdings
from controller.policy.placement_limits import Group, PlacementLimits

SCORE_BAND = 0.05  # scores closer than this count as equal: a noisy average must not gather every orphan

Rank = tuple[int, int, int, str]
Key = tuple[int, int, int, int, int, str]  # with limits: over the cap, bundles of the group, then the rank


def rank(holdings: Holdings, namespace: str, broker: str, score: float) -> Rank:
    """The least rank gets the bundle."""
    held = holdings.spread(namespace).get(broker, 0)
    return held, int(score / SCORE_BAND), holdings.total(broker), broker


class Placement:
    """Chooses among the brokers that may be granted something now; sees every grant made meanwhile.

    `holdings` returns the newest index; `scores`: eligible broker -> newest score, 0..1. Tell of each bundle that
    went from one broker to another: ranks are otherwise expected to grow only.
    """

    def __init__(
        self, holdings: Callable[[], Holdings], scores: Mapping[str, float], limits: PlacementLimits | None = None
    ) -> None:
        self._holdings = holdings
        self._scores = dict(scores)
        self.limits = limits
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
        """The broker of the least rank that is not barred (of those named, if any are), or None.

        `leaving`: where the bundle is now, if anywhere; there it does not count for its anti-affinity group.
        """
        allowed: Collection[str] = self._scores if self.limits is None else self.limits.allowed(namespace)
        group = None if self.limits is None else self.limits.group(namespace)
        if self.limits is not None and group is not None:
            return self._choose_apart(namespace, self.limits, group, (barred, among), leaving)
        if among is not None:
            named = [b for b in among if b in self._scores and b in allowed and b not in barred]
            return min((self._key(namespace, b) for b in named), default=(None,))[-1]
        spread = self._holdings().spread(namespace)
        kind = 0 if self.limits is None else self.limits.kind_of(namespace)
        if 2 * len(spread) < len(allowed):  # most brokers have none of it: the first of those in the common order
            found = self._queue("", kind, allowed).first(lambda broker: broker in spread or broker in barred)
            if found is not None and not self._over_cap(found):
                return found
        return self._queue(namespace, kind, allowed).first(lambda broker: broker in barred)

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

    def _choose_apart(
        self,
        namespace: str,
        limits: PlacementLimits,
        group: Group,
        rules: tuple[Set[str], Collection[str] | None],
        leaving: str | None,
    ) -> str | None:
        """The least of the domains with the least of the group; brokers at the cap only when all are."""
        barred, among = rules
        brokers = limits.by_domain(namespace)
        at_home = None if leaving is None else limits.domain(leaving)
        held = {domain: group.by_domain.get(domain, 0) - (domain == at_home) for domain in brokers}
        for capped in (True, False) if limits.max_bundles is not None else (False,):

            def passed_over(b: str, capped: bool = capped) -> bool:
                return b in barred or (among is not None and b not in among) or (capped and self._over_cap(b))

            found: list[tuple[int, Key]] = []
            for domain in sorted(brokers, key=held.__getitem__):
                if found and held[domain] > found[0][0]:
                    break
                first = self._queue(namespace, domain, brokers[domain]).first(passed_over)
                if first is not None:
                    found.append((held[domain], self._key(namespace, first)))
            if found:
                return min(found)[1][-1]
        return None

    def _queue(self, namespace: str, part: int | str, brokers: Iterable[str]) -> _Queue:
        queue = self._queues.get((namespace, part))
        if queue is None:
            key = self._rank if self.limits is None else self._key
            queue = self._queues[namespace, part] = _Queue(brokers, lambda b: key(namespace, b))
        return queue

    def _rank(self, namespace: str, broker: str) -> Rank:
        return rank(self._holdings(), namespace, broker, self._scores[broker])

    def _key(self, namespace: str, broker: str) -> Key:
        group = None if self.limits is None else self.limits.group(namespace)
        apart = 0 if group is None else group.by_broker.get(broker, 0)
        return self._over_cap(broker), apart, *self._rank(namespace, broker)

    def _over_cap(self, broker: str) -> bool:
        most = None if self.limits is None else self.limits.max_bundles
        return most is not None and self._holdings().total(broker) >= most


class _Queue:
    """Brokers by rank. An entry whose rank has changed since is put right when it comes to the front."""

    def __init__(self, brokers: Iterable[str], key_of: Callable[[str], Key | Rank]) -> None:
        self._key_of = key_of
        self._heap = [key_of(broker) for broker in brokers]
        self._brokers = frozenset(key[-1] for key in self._heap)
        heapq.heapify(self._heap)

    def push(self, broker: str) -> None:
        if broker in self._brokers:
            heapq.heappush(self._heap, self._key_of(broker))

    def first(self, passed_over: Callable[[str], bool]) -> str | None:
        """The broker of the least rank that is not passed over; the order stays as it is."""
        aside: set[Key | Rank] = set()
        found = None
        while self._heap and found is None:
            seen = heapq.heappop(self._heap)
            now = self._key_of(seen[-1])
            if seen < now:
                heapq.heappush(self._heap, now)
            elif seen == now:
                aside.add(seen)
                found = None if passed_over(now[-1]) else now[-1]
        for kept in aside:
            heapq.heappush(self._heap, kept)
        return found
