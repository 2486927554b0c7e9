"""The order in which brokers are preferred for a bundle: by load where a round has reported loads, else by count.

A *standing* says how a broker stands for one bundle; the least gets it, and the first place in which two differ is the
rule by which the other lost. Before both orders come the rules of placement: below every cap, the failure domain with
the fewest bundles of an anti-affinity group, and of its brokers the one with the fewest.

By count: fewest bundles of the same namespace (a namespace spreads over all brokers; Pulsar:
loadBalancerDistributeBundlesEvenlyEnabled), the lower band of load score, fewest bundles in all, broker id.
By load: not overloaded, the lower band of the predicted score, fewest bundles of the same namespace, the lower
predicted score, fewest bundles in all, broker id. For a bundle of unknown load the bands are wide, so that a new
namespace spreads over all brokers that are about as loaded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from controller.domain.decision import Reason
from controller.domain.holdings import Holdings
from controller.domain.load import SCORE_UNIT

SCORE_BAND = 0.05  # scores closer than this count as equal: a noisy average must not gather every orphan
FINE_BAND = 0.01  # of predicted scores, where the bundle's own load is known
MOST_CANDIDATES = 5  # brokers in the evidence of a placement

Standing = tuple[Any, ...]
Rank = tuple[int, int, int, str]
_RULES = (Reason.BROKER_CAP, Reason.FAILURE_DOMAIN, Reason.ANTI_AFFINITY)
_BY_COUNT = (*_RULES, Reason.MORE_OF_NAMESPACE, Reason.MORE_LOADED, Reason.MORE_BUNDLES)
_BY_LOAD = (
    *_RULES, Reason.OVERLOADED, Reason.MORE_LOADED, Reason.MORE_OF_NAMESPACE, Reason.MORE_LOADED,
    Reason.MORE_BUNDLES,
)  # fmt: skip
_AFTER = 6  # place of the predicted score in a standing by load
_OF_NAMESPACE, _BUNDLES = 3, 5  # places in a standing by count


@dataclass(frozen=True, slots=True)
class Candidate:
    """A broker considered for one bundle."""

    broker: str
    standing: Standing
    by_load: bool

    @property
    def after(self) -> float | None:
        """Its predicted score with the bundle; None where brokers are compared by count."""
        return self.standing[_AFTER] if self.by_load else None

    def to_evidence(self, winner: Candidate) -> dict[str, Any]:
        """The candidate's row of evidence."""
        row: dict[str, Any] = {"target": self.broker, "lost_by": find_deciding_rule(self, winner)}
        if self.by_load:
            return {**row, "target_after": round(self.standing[_AFTER] * SCORE_UNIT)}
        return {**row, "of_namespace": self.standing[_OF_NAMESPACE], "bundles": self.standing[_BUNDLES]}


def rank_by_count(holdings: Holdings, namespace: str, broker: str, score: float) -> Rank:
    """The broker's rank for a bundle of the namespace; by count, the least rank gets the bundle."""
    held = holdings.spread(namespace).get(broker, 0)
    return held, int(score / SCORE_BAND), holdings.total(broker), broker


def find_deciding_rule(loser: Candidate, winner: Candidate) -> str:
    """The first rule in which the two differ; empty for the winner itself, and where only the id decided."""
    rules = _BY_LOAD if winner.by_load else _BY_COUNT
    pairs = zip(rules, loser.standing, winner.standing, strict=False)
    return next((rule.value for rule, own, best in pairs if own != best), "")


class StandingQueue:
    """Brokers by standing, the least first. An entry that has changed since is corrected when it reaches the front."""

    def __init__(self, brokers: Iterable[str], standing_of: Callable[[str], Standing]) -> None:
        self._standing_of = standing_of
        self._heap = [standing_of(broker) for broker in brokers]
        self._brokers = frozenset(standing[-1] for standing in self._heap)
        heapq.heapify(self._heap)

    def push(self, broker: str) -> None:
        """Enter the broker's present standing, which may be lower than its entry; other brokers are ignored."""
        if broker in self._brokers:
            heapq.heappush(self._heap, self._standing_of(broker))

    def least(self, most: int, is_barred: Callable[[str], bool]) -> list[Standing]:
        """The first brokers, at most so many, that are not barred; the queue stays as it is."""
        aside: set[Standing] = set()
        found: list[Standing] = []
        while self._heap and len(found) < most:
            seen = heapq.heappop(self._heap)
            now = self._standing_of(seen[-1])
            if seen < now:
                heapq.heappush(self._heap, now)
            elif seen == now and seen not in aside:
                aside.add(seen)
                if not is_barred(now[-1]):
                    found.append(now)
        for kept in aside:
            heapq.heappush(self._heap, kept)
        return found
