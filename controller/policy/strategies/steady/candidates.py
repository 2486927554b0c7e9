"""Which of a source's bundles, and which targets, are worth pairing: a few of each, whatever the cluster's size.

Bundles are grouped by owner once a round, and only in rounds that look into any. Of a source's free bundles the largest
that fit its excess come first; some larger ones are kept for swaps and splits, and as evidence of what was too big.
"""

from __future__ import annotations

import numpy as np

from controller.policy.strategies.steady.disruption import disruption
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.pairs import Candidates
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
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
        self._largest: dict[int, tuple[int, float] | None] = {}

    def all_of(self, broker: int) -> Ints:
        """Every bundle of the broker, by index."""
        return np.asarray(self._order[self._starts[broker] : self._starts[broker + 1]])

    def free_of(self, broker: int) -> Candidates:
        """Those that nothing forbids to move and no decision of this round names."""
        if broker not in self._known:
            bundles = self.all_of(broker)
            bundles = bundles[self._free[bundles]]
            cost = disruption(self._model.snapshot, bundles) if len(bundles) else np.zeros(0)
            model = self._model
            self._known[broker] = Candidates(broker, bundles, model.work(bundles), model.relief(bundles, broker), cost)
        known = self._known[broker]
        free = self._free[known.bundles]
        if not free.all():
            known = self._known[broker] = select(known, np.flatnonzero(free))
        return known

    def name(self, bundle: int) -> None:
        """A decision names the bundle: it stays where that decision puts it."""
        self._free[bundle] = False

    def largest_of(self, broker: int) -> tuple[int, float] | None:
        """The broker's heaviest bundle that has not left it, free or not, and the score it alone would give it."""
        found = self._largest.get(broker)
        if found is None or self._model.owner[found[0]] != broker:
            held = self.all_of(broker)
            held = held[self._model.owner[held] == broker]
            if not len(held):
                return None
            alone = self._model.alone(held, broker)
            at = int(np.argmax(alone))
            found = self._largest[broker] = int(held[at]), float(alone[at])
        return found


def select(found: Candidates, rows: Ints) -> Candidates:
    """Only these rows, in order of the bundles."""
    return Candidates(found.source, found.bundles[rows], found.work[rows], found.relief[rows], found.disruption[rows])


def near(found: Candidates, relief: Floats, wanted: float) -> Candidates:
    """The largest whose relief [n] is at most `wanted`, the smallest above it, and the largest of all."""
    fits = np.flatnonzero(relief <= wanted)
    above = np.flatnonzero(relief > wanted)
    chosen = np.zeros(len(relief), bool)
    chosen[_first(fits, -relief[fits], FITTING)] = True
    chosen[_first(above, relief[above], TOO_BIG)] = True
    chosen[np.argmax(relief)] = True
    return select(found, np.flatnonzero(chosen))


def targets_within_rules(model: Model, allowed: Bools, found: Candidates) -> Ints:
    """`targets_for` the bundles' source; where isolation is configured, as many for each kind of namespace."""
    if model.placement_state is None:
        return targets_for(model, allowed, found.source)
    kinds = [
        targets_for(model, allowed & mask, found.source) for mask in model.placement_state.targets_of(found.bundles)
    ]
    return np.unique(np.concatenate(kinds))


def targets_for(model: Model, allowed: Bools, source: int) -> Ints:
    """The allowed brokers with most room below the level and those with the lowest score; not the source itself."""
    usable = allowed & (model.snapshot.target_block == ALLOWED)
    usable[source] = False
    left = np.flatnonzero(usable)
    if len(left) <= MOST_TARGETS:
        return left
    busy = model.busy[left].max(axis=1, initial=0.0)
    headroom = (model.level - busy) * model.size[left]
    chosen = np.zeros(len(usable), bool)
    chosen[_first(left, -headroom, MOST_TARGETS)] = True
    chosen[_first(left, busy, MOST_TARGETS)] = True
    return np.flatnonzero(chosen)


def _first(of: Ints, by: Floats, count: int) -> Ints:
    """The `count` with the smallest keys; stable."""
    if len(of) <= count:
        return of
    edge = np.partition(by, count - 1)[count - 1]
    close = np.flatnonzero(by <= edge)
    return np.asarray(of[close[np.argsort(by[close], kind="stable")[:count]]])
