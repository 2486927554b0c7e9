"""Which broker gets a bundle that nobody owns, or that must leave where it is.

The order of preference is in `preference.py`: by load where a round has reported loads, else by count. Isolation is no
preference: a broker that it does not allow is never chosen. A namespace whose isolation policy leaves it no broker gets
none, as in Pulsar, whose lookup is then left without an answer. Ties are broken by broker id, never at random.

A thousand bundles are placed on a thousand brokers without sorting the brokers for each bundle: by load the
MOST_COMPARED least loaded ones are compared for it, which are all brokers of a small cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from operator import attrgetter

from controller.domain.holdings import Holdings
from controller.policy.placement.assignment_rules import AssignmentRules, GroupCounts
from controller.policy.placement.loads import Cost, ExpectedLoads
from controller.policy.placement.preference import (
    FINE_BAND,
    MOST_CANDIDATES,
    SCORE_BAND,
    Candidate,
    Standing,
    StandingQueue,
    rank_by_count,
)

MOST_COMPARED = 8


class Assigner:
    """Chooses among the brokers that may be granted something now; sees every grant made meanwhile.

    `holdings` returns the newest index; `scores`: eligible broker -> newest score, 0..1; `loads`: used instead of
    scores and counts where given. Note each bundle that changes brokers, in the loads first: standings are otherwise
    expected only to grow.
    """

    def __init__(
        self,
        holdings: Callable[[], Holdings],
        scores: Mapping[str, float],
        rules: AssignmentRules | None = None,
        loads: ExpectedLoads | None = None,
    ) -> None:
        self._holdings = holdings
        self._scores = dict(scores)
        self.rules = rules
        self.loads = loads
        self._queues: dict[tuple[str, int | str], StandingQueue] = {}  # by namespace ("": for any) and part

    def __contains__(self, broker: str) -> bool:
        return broker in self._scores

    def __len__(self) -> int:
        return len(self._scores)

    def allows(self, namespace: str, broker: str) -> bool:
        """Whether isolation allows the broker to the namespace."""
        return self.rules is None or broker in self.rules.allowed(namespace)

    def choose(
        self,
        namespace: str,
        barred: Set[str] = frozenset(),
        among: Collection[str] | None = None,
        leaving: str | None = None,
    ) -> str | None:
        """The first of `rank_candidates` for a bundle of the namespace, or None."""
        found = self.rank_candidates(namespace, barred, among, leaving, most=1)
        return found[0].broker if found else None

    def rank_candidates(
        self,
        namespace: str,
        barred: Set[str] = frozenset(),
        among: Collection[str] | None = None,
        leaving: str | None = None,
        bundle: str | None = None,
        most: int = MOST_CANDIDATES,
    ) -> list[Candidate]:
        """The brokers of the least standing that are not barred (of those named, if any are), the best first.

        `leaving`: where the bundle is now, if anywhere; there it does not count for its anti-affinity group. `bundle`:
        its name, where its own load is to be used.
        """
        allowed: Collection[str] = self._scores if self.rules is None else self.rules.allowed(namespace)
        group = None if self.rules is None else self.rules.group(namespace)
        known = self.loads is not None and bundle is not None and self.loads.known(bundle)
        many = most if self.loads is None else max(most, MOST_COMPARED)
        if self.rules is not None and group is not None:
            found = self._least_of_group(namespace, self.rules, group, (barred, among), leaving, many)
        elif among is not None:
            named = [b for b in among if b in self._scores and b in allowed and b not in barred]
            found = [(0, self._order(namespace, b)) for b in named]
        else:
            found = [(0, order) for order in self._least(namespace, allowed, barred, many, known)]
        if self.loads is None:
            ranked = [Candidate(order[-1], self._by_count(held, order), by_load=False) for held, order in found]
        else:
            cost, band = self.loads.cost(bundle or ""), FINE_BAND if known else SCORE_BAND
            spread = self._holdings().spread(namespace)
            ranked = [Candidate(o[-1], self._by_load(held, o, spread, cost, band), by_load=True) for held, o in found]
        ranked.sort(key=attrgetter("standing"))
        return ranked[:most]

    def note_move(self, namespace: str, source: str | None, target: str | None) -> None:
        """Count a bundle of the namespace for the target instead of the source, which holds fewer than before."""
        if self.rules is not None:
            self.rules.note_move(namespace, source, target)
        if source is not None:
            self.note_relief(source)

    def note_relief(self, broker: str) -> None:
        """Reconsider a broker that holds fewer bundles than before."""
        for queue in self._queues.values():
            queue.push(broker)

    def _least(
        self, namespace: str, allowed: Collection[str], barred: Set[str], many: int, known: bool
    ) -> Iterable[Standing]:
        """The first brokers for a bundle of a namespace in no group, by their place in the order."""
        spread = self._holdings().spread(namespace)
        kind = 0 if self.rules is None else self.rules.kind_of(namespace)
        common = 2 * len(spread) < len(allowed)  # most brokers have none of it: the common order will do

        def elsewhere() -> list[Standing]:
            return self._queue("", kind, allowed).least(many, lambda broker: broker in spread or broker in barred)

        if self.loads is not None:
            found = self._queue("", kind, allowed).least(many, lambda broker: broker in barred)
            return dict.fromkeys([*found, *elsewhere()]) if common and not known else found
        if common and (found := elsewhere()) and not self._over_cap(found[0][-1]):
            return found
        return self._queue(namespace, kind, allowed).least(many, lambda broker: broker in barred)

    def _least_of_group(
        self,
        namespace: str,
        rules: AssignmentRules,
        group: GroupCounts,
        filters: tuple[Set[str], Collection[str] | None],
        leaving: str | None,
        many: int,
    ) -> list[tuple[int, Standing]]:
        """The first brokers of each domain with the fewest of the group; those at the cap only when all are."""
        barred, among = filters
        brokers = rules.by_domain(namespace)
        left = None if leaving is None else rules.domain(leaving)
        held = {domain: group.by_domain.get(domain, 0) - (domain == left) for domain in brokers}
        for with_capped in (False, True) if self._has_cap() else (True,):

            def is_barred(b: str, with_capped: bool = with_capped) -> bool:
                return b in barred or (among is not None and b not in among) or (not with_capped and self._over_cap(b))

            found: list[tuple[int, Standing]] = []
            for domain in sorted(brokers, key=held.__getitem__):
                if found and held[domain] > found[0][0]:
                    break
                first = self._queue(namespace, domain, brokers[domain]).least(many, is_barred)
                found += [(held[domain], order) for order in first]
            if found:
                return found
        return []

    def _queue(self, namespace: str, part: int | str, brokers: Iterable[str]) -> StandingQueue:
        queue = self._queues.get((namespace, part))
        if queue is None:
            queue = self._queues[namespace, part] = StandingQueue(brokers, lambda b: self._order(namespace, b))
        return queue

    def _order(self, namespace: str, broker: str) -> Standing:
        """The broker's place in the order. By load every bundle counts as a mean one, so that bigger brokers come
        first."""
        group = None if self.rules is None else self.rules.group(namespace)
        apart = 0 if group is None else group.by_broker.get(broker, 0)
        if self.loads is None:
            score = self._scores[broker]
            return self._over_cap(broker), apart, *rank_by_count(self._holdings(), namespace, broker, score)
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

    def _has_cap(self) -> bool:
        return self.loads is not None or (self.rules is not None and self.rules.max_bundles is not None)

    def _over_cap(self, broker: str) -> bool:
        most = None if self.rules is None else self.rules.max_bundles
        if most is not None and self._holdings().total(broker) >= most:
            return True
        return self.loads is not None and self.loads.standing(broker).at_cap
