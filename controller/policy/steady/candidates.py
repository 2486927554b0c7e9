"""Which of a source's bundles, and which targets, are worth pairing: a few of each, whatever the cluster's size.

Bundles are grouped by owner once a round, and only those of the brokers that are looked into. Of a source's free
bundles the largest that fit its excess come first; some larger ones are kept, so that swaps and splits can be thought
of and the evidence shows what was too big.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.policy.costs import Floats
from controller.policy.frame import Ints
from controller.policy.snapshot import ALLOWED
from controller.policy.steady.disruption import disruption
from controller.policy.steady.model import Model
from controller.policy.steady.pairs import Candidates

FITTING, TOO_BIG = 24, 8
MOST_TARGETS = 24  # by room, and as many by lowest score


class Held:
    """The bundles of some brokers as they were at the start of the round, with their work and what moving disrupts."""

    def __init__(self, model: Model, brokers: Ints) -> None:
        self._model = model
        wanted = np.zeros(len(model.score) + 1, bool)  # the last one stands for NOBODY
        wanted[brokers] = True
        found = np.flatnonzero(wanted[model.snapshot.owner])
        owner = model.snapshot.owner[found]
        self._found = found[np.argsort(owner, kind="stable")]
        self._starts = np.searchsorted(np.sort(owner), np.arange(len(model.score) + 1))
        self._known: dict[int, Candidates] = {}

    def all_of(self, broker: int) -> Ints:
        """Every bundle of the broker, by index."""
        return self._found[self._starts[broker] : self._starts[broker + 1]]

    def free_of(self, broker: int) -> Candidates:
        """Those that may still be moved in this round."""
        if broker not in self._known:
            bundles = self.all_of(broker)
            cost = disruption(self._model.snapshot, bundles) if len(bundles) else np.zeros(0)
            self._known[broker] = Candidates(broker, bundles, self._model.work(bundles, broker), cost)
        known = self._known[broker]
        return picked(known, np.flatnonzero(self._model.free(known.bundles)))


def picked(found: Candidates, rows: Ints) -> Candidates:
    """Only these rows, in order of the bundles."""
    return Candidates(found.source, found.bundles[rows], found.work[rows], found.disruption[rows])


def near(found: Candidates, relief: Floats, wanted: float) -> Candidates:
    """The largest whose relief [n] is at most `wanted`, the smallest above it, and the largest of all."""
    fits = np.flatnonzero(relief <= wanted)
    above = np.flatnonzero(relief > wanted)
    rows = np.concatenate([_first(fits, -relief[fits], FITTING), _first(above, relief[above], TOO_BIG)])
    return picked(found, np.union1d(rows, [np.argmax(relief)]))


def targets_for(model: Model, allowed: NDArray[np.bool_], source: int) -> Ints:
    """The allowed brokers with most room below the level and those with the lowest score; not the source itself."""
    usable = allowed & (model.snapshot.target_block == ALLOWED)
    usable[source] = False
    left = np.flatnonzero(usable)
    if len(left) <= MOST_TARGETS:
        return left
    room = (model.level - model.score[left]) * model.room[left]
    chosen = np.union1d(_first(left, -room, MOST_TARGETS), _first(left, model.score[left], MOST_TARGETS))
    return np.asarray(chosen, np.int64)


def _first(of: Ints, by: Floats, count: int) -> Ints:
    """The `count` with the smallest keys; stable."""
    if len(of) <= count:
        return of
    edge = np.partition(by, count - 1)[count - 1]
    close = np.flatnonzero(by <= edge)
    return np.asarray(of[close[np.argsort(by[close], kind="stable")[:count]]])
