"""One replay of a recording: the owners of bundles, step by step, under the decisions of a strategy.

Brokers come and go as recorded. Bundles of a broker that left are placed like orphans in the controller
(`controller.policy.placement.assignment`). So are new bundles, except parts of an earlier bundle, which stay with its
owner. A bundle that disappears for a time keeps its owner. Moves take effect in the step after the round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.backtest.point.bundle_set import BundleSet
from controller.backtest.point.placing import Placing
from controller.backtest.recording.prepared import Mask, Prepared
from controller.backtest.recording.recording import Ints
from controller.domain.decision import Decision, DecisionKind
from controller.domain.errors import InvariantBroken
from controller.domain.settings.policy import PolicySettings
from controller.policy.view.frame import NOBODY, namespace_of_bundle
from controller.sim.ownership.load_cluster import BALANCE, FAILOVER, SPLIT

ADDITION = "addition"  # a move by a round to a broker that had been empty within the last JOINED_ROUNDS rounds
JOINED_ROUNDS = 10


class Moved(NamedTuple):
    """A change of owner. `step`: the first step with the new owner; `row`: of the BundleSet; brokers by index."""

    step: int
    at_ms: int
    row: int
    source: int
    target: int
    cause: str


@dataclass(frozen=True, slots=True)
class Span:
    """Steps from `first` to the next span, without a change of owner. `owner` [U]: NOBODY for absent bundles."""

    first: int
    owner: Ints


class ReplayWorld:
    """The cluster during a replay; see the module docstring."""

    def __init__(self, prepared: Prepared, settings: PolicySettings) -> None:
        self.prepared = prepared
        self._settings = settings
        self.bundles = BundleSet(prepared.bundles)
        self.bundles.owner[:] = prepared.first_owner
        self.bundles.show(prepared.present[0])
        self.moves: list[Moved] = []
        self.spans: list[Span] = []
        self.splits = 0
        self._disturbed: set[int] = set()
        self._left: dict[int, int] = {}  # row without an owner -> the broker that left it behind
        self._empty_round = np.full(len(prepared.brokers), -JOINED_ROUNDS - 1)  # the last round that found it empty
        self._changes = np.append(True, (np.diff(prepared.member, axis=0) != 0).any(axis=1))
        self._changes[1:] |= (np.diff(prepared.present, axis=0) != 0).any(axis=1)
        self._touched = True

    def advance(self, step: int) -> None:
        """Apply the recorded changes at the beginning of this step."""
        if self._changes[step]:
            self._follow(step)
        if self._touched:
            bundles = self.bundles
            self.spans.append(Span(step, np.where(bundles.there, bundles.owner, NOBODY)))
            self._touched = False

    def owners_at(self, round_: int) -> Ints:
        """[U] the owners at this round, NOBODY for absent bundles; also notes which brokers are empty."""
        owner = np.where(self.bundles.there, self.bundles.owner, NOBODY)
        held = np.bincount(owner[owner != NOBODY], minlength=len(self.prepared.brokers))
        self._empty_round[held == 0] = round_
        return owner

    def take_disturbed(self) -> list[str]:
        """The brokers that gained or lost bundles since the last call other than by a round's move."""
        taken, self._disturbed = self._disturbed, set()
        return [self.prepared.brokers[at] for at in sorted(taken) if at != NOBODY]

    def carry_out(self, decisions: Iterable[Decision], round_: int) -> list[tuple[Decision, Moved]]:
        """Carry out the decisions of a round in order; return its moves with their decisions."""
        step, at_ms = int(self.prepared.round_step[round_]), int(self.prepared.at_ms[self.prepared.round_step[round_]])
        index = {name: at for at, name in enumerate(self.prepared.brokers)}
        moved = []
        for decision in decisions:
            row = self.bundles.row_of(decision.bundle) if decision.bundle is not None else None
            if row is None or decision.kind in (DecisionKind.SKIP, DecisionKind.ASSIGN):
                continue
            if decision.kind is DecisionKind.SPLIT:
                self._split(row, decision.boundary, step, at_ms)
                continue
            if decision.target is not None:
                target: int | None = index[decision.target]
            else:
                target = self._choose_target(step, row, {self.prepared.brokers[self.bundles.owner[row]]})
            if target is not None:
                self._check(decision, step, target)
                lately = round_ - self._empty_round[target] <= JOINED_ROUNDS
                cause = ADDITION if lately else BALANCE
                moved.append((decision, self._move(step + 1, at_ms, row, target, cause)))
        return moved

    def _check(self, decision: Decision, step: int, target: int) -> None:
        if not self.prepared.member[step, target]:
            move = f"{decision.bundle} to {self.prepared.brokers[target]}"
            raise InvariantBroken(f"{decision.strategy} moves {move}, which is not there: its frame did not list it")

    def _move(self, step: int, at_ms: int, row: int, target: int, cause: str) -> Moved:
        bundles = self.bundles
        move = Moved(step, at_ms, row, int(bundles.owner[row]), target, cause)
        bundles.owner[row] = target
        bundles.epoch[row] += 1
        if cause != FAILOVER:
            bundles.moved_at_ms[row] = at_ms
        self.moves.append(move)
        self._touched = True
        return move

    def _split(self, row: int, boundary: int | None, step: int, at_ms: int) -> None:
        """Split a bundle; with auto-unload, placement chooses a broker for the quieter half."""
        source = int(self.bundles.owner[row])
        halves = self.bundles.split_at(row, boundary)
        if halves is None:
            return
        self.splits += 1
        self._touched = True
        self._disturbed.add(source)
        quieter = min(halves, key=lambda half: (self.bundles.share[half], -half))
        target = (
            self._choose_target(step, quieter, {self.prepared.brokers[source]})
            if self._settings.split.auto_unload
            else None
        )
        if target is not None:
            self._move(step + 1, at_ms, quieter, target, SPLIT)
            self._disturbed.add(target)

    def _follow(self, step: int) -> None:
        """Follow brokers and bundles that came or went since the last step."""
        prepared, bundles = self.prepared, self.bundles
        before = np.flatnonzero(bundles.there)
        was = bundles.owner[before].copy()
        bundles.show(prepared.present[step])
        gone = ~prepared.member[step]
        self._left.update((row, int(bundles.owner[row])) for row in np.flatnonzero(self._find_orphans(gone)).tolist())
        bundles.owner[self._find_orphans(gone)] = NOBODY
        homeless = bundles.there & (bundles.owner == NOBODY)
        changed = np.setxor1d(before, np.flatnonzero(bundles.there))
        self._disturbed |= {*was[np.isin(before, changed)].tolist(), *bundles.owner[changed].tolist()}
        self._touched = True
        rows = np.flatnonzero(homeless)
        if not len(rows):
            return
        at_ms = int(prepared.at_ms[step - 1]) if step else int(prepared.at_ms[0])
        placing, spaces = self._make_placing(step), self.bundles.by_namespace(before)
        for row in sorted(rows.tolist(), key=bundles.names.__getitem__):
            source = self._left.get(row)
            target = self._find_inheritor(row, spaces, gone) if source is None else None
            if target is None:
                target = placing.choose(bundles.names[row])
            if target is None:
                continue  # no broker is there; tried again at the next change
            self._disturbed.add(target)
            placing.note(bundles.names[row], target)
            if source is None:
                bundles.owner[row] = target
            else:
                bundles.owner[row] = self._left.pop(row)
                self._move(step, at_ms, row, target, FAILOVER)

    def _find_orphans(self, gone: Mask) -> Mask:
        """[U] whether the owner has gone."""
        return np.asarray((self.bundles.owner != NOBODY) & gone[self.bundles.owner])

    def _find_inheritor(self, row: int, before: Mapping[str, Sequence[int]], gone: Mask) -> int | None:
        """The owner of the bundle that contained this one's range in the last step; `before`: namespace -> rows."""
        ancestor = self.bundles.ancestor(row, before.get(namespace_of_bundle(self.bundles.names[row]), ()))
        owner = NOBODY if ancestor is None else int(self.bundles.owner[ancestor])
        return owner if owner != NOBODY and not gone[owner] else None

    def _choose_target(self, step: int, row: int, barred: set[str]) -> int | None:
        return self._make_placing(step).choose(self.bundles.names[row], barred)

    def _make_placing(self, step: int) -> Placing:
        prepared, bundles = self.prepared, self.bundles
        there = prepared.member[step]
        owner = np.where(bundles.there, bundles.owner, NOBODY)
        settled = (owner != NOBODY) & there[owner]
        scores = np.zeros(len(there))
        for c, weight in enumerate(prepared.weight.tolist()):
            cost = prepared.cost[c, step][bundles.root[settled]] * bundles.share[settled]
            used = prepared.base[c, step] + np.bincount(owner[settled], cost, len(there))
            scores = np.fmax(scores, weight * used / prepared.limit[c, step])
        held = {bundles.names[row]: int(owner[row]) for row in np.flatnonzero(settled).tolist()}
        return Placing(prepared.brokers, there, scores, held, self._settings)
