"""Which of a source's bundles, and which targets, are worth pairing: a few of each, whatever the cluster's size.

Bundles are grouped by owner once a round, and only in rounds that look into any. Of a source's free bundles the largest
that fit its excess come first; some larger ones are kept for swaps and splits, and as evidence of what was too big.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import numpy as np

from controller.policy.strategies.steady.disruption import disruption
from controller.policy.strategies.steady.model import Model, highest
from controller.policy.strategies.steady.pairs import Candidates
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints, namespaces_of
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Bools

FITTING, TOO_BIG = 24, 8
MOST_TARGETS = 24  # by room, and as many by lowest score


class Held:
    """All bundles by broker as of the start of the round, with their work and what moving them disrupts."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._free = model.snapshot.bundle_block == ALLOWED
        count = len(model.score)
        # a stable sort of 16-bit integers is a radix sort: a million bundles in some ten milliseconds
        owner = model.snapshot.owner.astype(np.int16 if count < np.iinfo(np.int16).max else np.int64)
        self._order = np.argsort(owner, kind="stable")
        sizes = np.bincount(model.snapshot.owner + 1, minlength=count + 1)  # the first one stands for NOBODY
        self._starts = np.cumsum(sizes)
        self._known: dict[int, Candidates] = {}
        self._stale: set[int] = set()  # those of which a bundle is no longer free
        self._alone: dict[int, Floats] = {}
        self._largest: dict[int, tuple[int, float] | None] = {}

    def all_of(self, broker: int) -> Ints:
        """Every bundle of the broker, by index."""
        return np.asarray(self._order[self._starts[broker] : self._starts[broker + 1]])

    def free_of(self, broker: int) -> Candidates:
        """Those that nothing forbids to move and no decision of this round names."""
        known = self._known.get(broker)
        if known is None:
            held = self.all_of(broker)
            bundles = held[self._free[held]]
            cost = disruption(self._model.snapshot, bundles) if len(bundles) else np.zeros(0)
            known = self._known[broker] = Candidates.of(self._model, broker, bundles, cost)
            if len(bundles) == len(held):
                self._alone.setdefault(broker, highest(known.taken))
        elif broker in self._stale:
            known = self._known[broker] = known.select(np.flatnonzero(self._free[known.bundles]))
        self._stale.discard(broker)
        return known

    @cached_property
    def _namespaces(self) -> tuple[tuple[str, ...], Ints]:
        return namespaces_of(self._model.snapshot.bundles)  # a look into its cache hashes all names

    def close(self, namespace: str) -> None:
        """None of the namespace's bundles may move any more."""
        spaces, space_of = self._namespaces
        at = bisect_left(spaces, namespace)
        if at < len(spaces) and spaces[at] == namespace:
            self._free[space_of == at] = False
        self._stale.update(self._known)

    def name(self, bundle: int) -> None:
        """A decision names the bundle: it stays where that decision puts it."""
        self._free[bundle] = False
        self._stale.add(int(self._model.snapshot.owner[bundle]))

    def is_free(self, bundle: int) -> bool:
        """Whether nothing forbids it to move, and no decision of this round names it."""
        return bool(self._free[bundle])

    def largest_of(self, broker: int) -> tuple[int, float] | None:
        """The broker's heaviest bundle that has not left it, free or not, and the score it alone would give it."""
        found = self._largest.get(broker)
        if found is None or self._model.owner[found[0]] != broker:
            held = self.all_of(broker)
            here = self._model.owner[held] == broker
            if not here.any():
                return None
            alone = np.where(here, self.alone_of(broker), -1.0)
            at = int(alone.argmax())
            found = self._largest[broker] = int(held[at]), float(alone[at])
        return found

    def alone_of(self, broker: int) -> Floats:
        """[n] the score that each of a broker's own bundles would give it without the others."""
        if broker not in self._alone:
            bundles = self.all_of(broker)
            relief = self._model.relief(bundles, self._model.work(bundles), broker)
            self._alone[broker] = highest(self._model.on(broker, relief))
        return self._alone[broker]


def near(found: Candidates, relief: Floats, wanted: float) -> Candidates:
    """The largest whose relief [n] is at most `wanted`, the smallest above it, and the largest of all."""
    fitting = int(np.count_nonzero(relief <= wanted))
    begin, end = max(fitting - FITTING, 0), min(fitting + TOO_BIG, len(relief))
    ordered = np.partition(relief, (begin, end - 1))
    least, most = ordered[begin], ordered[end - 1]
    chosen = (relief >= least) & (relief <= most)
    if np.count_nonzero(chosen) > end - begin:  # some are equal: of these the first
        _leave_last(chosen, relief == least, int(np.count_nonzero(relief >= least)) - (len(relief) - begin))
        _leave_last(chosen, relief == most, int(np.count_nonzero(relief <= most)) - end)
    chosen[relief.argmax()] = True
    return found.select(chosen.nonzero()[0])


def targets_within_rules(model: Model, allowed: Bools, found: Candidates) -> Ints:
    """`targets_for` the bundles; where isolation is configured, as many for each kind of namespace."""
    if model.placement_state is None:
        return targets_for(model, allowed)
    kinds = [targets_for(model, allowed & mask) for mask in model.placement_state.targets_of(found.bundles)]
    return np.unique(np.concatenate(kinds))


def targets_for(model: Model, allowed: Bools) -> Ints:
    """The allowed brokers with most room below the level and those with the lowest score."""
    left: Ints = allowed.nonzero()[0]
    if len(left) <= MOST_TARGETS:
        return left
    peak = model.peak[left]
    headroom = (model.level - peak) * model.size[left]
    return np.asarray(left[_smallest(-headroom, MOST_TARGETS) | _smallest(peak, MOST_TARGETS)])


def _smallest(keys: Floats, count: int) -> Bools:
    """[n] which of more than `count` keys are the smallest; of equal ones the first."""
    edge = np.partition(keys, count - 1)[count - 1]
    chosen = keys <= edge
    surplus = int(np.count_nonzero(chosen)) - count
    if surplus:
        _leave_last(chosen, keys == edge, surplus)
    return np.asarray(chosen)


def _leave_last(chosen: Bools, equal: Bools, surplus: int) -> None:
    """Choose so many fewer, the last of those that are equal."""
    if surplus > 0:
        chosen[np.flatnonzero(equal)[-surplus:]] = False
