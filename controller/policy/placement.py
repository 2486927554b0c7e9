"""Which broker gets a bundle that nobody owns, or that must leave where it is.

The order of preference, each deciding only among those left by the one before: fewest bundles of the same namespace
(a namespace spreads over all brokers; Pulsar: loadBalancerDistributeBundlesEvenlyEnabled), then the lower band of
load score, then fewest bundles in all, then the broker id. Deterministic; no randomness to break ties. A thousand
bundles are placed on a thousand brokers without sorting the brokers for each bundle.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Set

from controller.domain.holdings import Holdings

SCORE_BAND = 0.05  # scores closer than this count as equal: a noisy average must not gather every orphan

Rank = tuple[int, int, int, str]


def rank(holdings: Holdings, namespace: str, broker: str, score: float) -> Rank:
    """The least rank gets the bundle."""
    held = holdings.spread(namespace).get(broker, 0)
    return held, int(score / SCORE_BAND), holdings.total(broker), broker


class Placement:
    """Chooses among the brokers that may be granted something now; sees every grant made meanwhile.

    `holdings` returns the newest index; `scores`: eligible broker -> newest score, 0..1. Tell of each broker that
    came to hold fewer bundles (`lightened`): ranks are otherwise expected to grow only.
    """

    def __init__(self, holdings: Callable[[], Holdings], scores: Mapping[str, float]) -> None:
        self._holdings = holdings
        self._scores = dict(scores)
        self._queues: dict[str, _Queue] = {}  # "" holds the order without regard to a namespace
        self._everywhere = self._queue("")

    def __contains__(self, broker: str) -> bool:
        return broker in self._scores

    def __len__(self) -> int:
        return len(self._scores)

    def choose(
        self, namespace: str, barred: Set[str] = frozenset(), among: Collection[str] | None = None
    ) -> str | None:
        """The broker of the least rank that is not barred (of those named, if any are), or None."""
        if among is not None:
            named = [b for b in among if b in self._scores and b not in barred]
            return min((rank(self._holdings(), namespace, b, self._scores[b]) for b in named), default=(None,))[-1]
        spread = self._holdings().spread(namespace)
        if 2 * len(spread) < len(self._scores):  # most brokers have none of it: the first of those in the common order
            found = self._everywhere.first(lambda broker: broker in spread or broker in barred)
            if found is not None:
                return found
        queue = self._queues.get(namespace) or self._queue(namespace)
        return queue.first(lambda broker: broker in barred)

    def lightened(self, broker: str) -> None:
        """The broker holds fewer bundles than before."""
        if broker in self._scores:
            for queue in self._queues.values():
                queue.push(broker)

    def _queue(self, namespace: str) -> _Queue:
        queue = _Queue(self._scores, lambda b: rank(self._holdings(), namespace, b, self._scores[b]))
        self._queues[namespace] = queue
        return queue


class _Queue:
    """Brokers by rank. An entry whose rank has changed since is put right when it comes to the front."""

    def __init__(self, brokers: Iterable[str], rank_of: Callable[[str], Rank]) -> None:
        self._rank_of = rank_of
        self._heap = [rank_of(broker) for broker in brokers]
        heapq.heapify(self._heap)

    def push(self, broker: str) -> None:
        heapq.heappush(self._heap, self._rank_of(broker))

    def first(self, passed_over: Callable[[str], bool]) -> str | None:
        """The broker of the least rank that is not passed over; the order stays as it is."""
        aside: set[Rank] = set()
        found = None
        while self._heap and found is None:
            seen = heapq.heappop(self._heap)
            now = self._rank_of(seen[-1])
            if seen < now:
                heapq.heappush(self._heap, now)
            elif seen == now:
                aside.add(seen)
                found = None if passed_over(now[-1]) else now[-1]
        for kept in aside:
            heapq.heappush(self._heap, kept)
        return found
