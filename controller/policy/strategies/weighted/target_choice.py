"""Where a bundle goes: which brokers may take it, and which of those is best.

With the bundle a target stays within all its limits, a little below those on what fluctuates, and is not overloaded,
unless some broker is as overloaded already. Among such targets the lowest sum wins:

| weight | term, 0..1 | |
| --- | --- | --- |
| 0.8 | load | fullness of its fullest limit with the bundle: load relative to capacity |
| 0.1 | metadata latency | ms / (ms + 10): 1 and 2 ms are much the same, 100 ms is not; unknown is the others' median |
| 0.1 | nearness | 0 for a broker that serves partitions of the same topic already, else 1 |

A bundle does not name its topics. So "the same topic" is the partitioned topic where the bundle's name ends like a
partition's (`ballast decide` takes such names), else its namespace.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.overrides import AVOID
from controller.domain.settings.policy import BrokerCaps
from controller.policy.overrides import match_override
from controller.policy.placement.constraints import pairs_exceed_caps
from controller.policy.placement.rules import track_placement
from controller.policy.strategies.weighted.figures import Figures
from controller.policy.strategies.weighted.providers import latency_ms
from controller.policy.view.costs import Floats
from controller.policy.view.frame import NOBODY, Ints, namespaces_of
from controller.policy.view.median import median
from controller.policy.view.reason_codes import ALLOWED, CODES
from controller.policy.view.snapshot import Bools, Snapshot
from controller.policy.what_if import Model

LOAD, LATENCY, NEARNESS = 0.8, 0.1, 0.1
HALF_MS = 10.0  # a metadata latency that counts half
UNIT = 1_000_000  # ranks are compared in millionths
PARTITION = re.compile(r"-partition-\d+$")


class Target(NamedTuple):
    """A chosen broker, its rank in 1 / UNIT, and whether it serves the bundle's topic already."""

    broker: int
    rank: int
    serves: bool


class TargetChoice:
    """Judges pairs as they stand after the moves chosen so far. `witnesses`: [N] bundles that nearness depended on."""

    def __init__(self, model: Model, figures: Figures, caps: BrokerCaps) -> None:
        self.snapshot, self._model, self._figures, self._caps = model.snapshot, model, figures, caps
        self._placement_state = track_placement(self.snapshot)
        self._latency = _latency_part(self.snapshot)
        self._avoided = _avoided(self.snapshot)
        self._groups: dict[str, Ints] = {}
        self.witnesses = np.zeros(len(self.snapshot.bundles), bool)

    def judge(self, bundles: Ints, targets: Ints) -> Ints:
        """[n x t] ALLOWED, or the index into REASONS of the first rule that keeps the bundle away from the target."""
        remaining, part = self._figures.remaining(targets), self._figures.part[bundles]
        fits = np.ones((len(bundles), len(targets)), bool)
        for limit in range(remaining.shape[1]):
            fits &= part[:, limit][:, None] <= remaining[:, limit][None, :]
        over_cap = pairs_exceed_caps(self._model.totals, targets, self.snapshot.fields, bundles, self._caps)
        result = np.where(fits, ALLOWED, CODES[Reason.TARGET_OVER_LIMIT])
        result = np.where(over_cap, CODES[Reason.BROKER_CAP], result)
        if self._placement_state is not None:
            codes = self._placement_state.codes(bundles, targets)
            result = np.where(codes != ALLOWED, codes, result)
        for row, bundle in enumerate(bundles.tolist()):
            for target in self._avoided.get(bundle, ()):
                result[row, targets == target] = CODES[Reason.AVOIDED]
        return np.asarray(result, np.int64)

    def best(self, bundle: int, targets: Ints, ceiling: int) -> Target | None:
        """The best of the targets that may take it; None where each would end with a score above the ceiling."""
        after = self._model.target_after(np.array([bundle]), targets)[0]
        targets = targets[after <= ceiling]
        if not len(targets):
            return None
        serves = self._serving(bundle)[targets]
        load = np.minimum(self._figures.after(np.array([bundle]), targets)[0], 1.0)
        rank = np.rint((LOAD * load + LATENCY * self._latency[targets] + NEARNESS * ~serves) * UNIT)
        best = int(np.argmin(rank))  # of equal ones the broker with the smaller id
        return Target(int(targets[best]), int(rank[best]), bool(serves[best]))

    def _serving(self, bundle: int) -> Bools:
        """[B] which brokers have something of the same topic; one bundle of each is noted as a witness."""
        result = np.zeros(len(self.snapshot.brokers), bool)
        alike = self._alike(bundle)
        alike = alike[(alike != bundle) & (self._model.owner[alike] != NOBODY)]
        owners, first = np.unique(self._model.owner[alike], return_index=True)
        result[owners] = True
        self.witnesses[alike[first]] = True
        return result

    def note_move(self, bundle: int, target: int) -> None:
        """The bundle is its target's from now on."""
        if self._placement_state is not None:
            self._placement_state.move(bundle, target)

    def _alike(self, bundle: int) -> Ints:
        """The bundles of the same partitioned topic, or of the same namespace, perhaps including this one."""
        names = self.snapshot.bundles
        spaces, of_space = namespaces_of(names)
        topic, partition = PARTITION.subn("", names[bundle])
        key = topic if partition else f"{spaces[of_space[bundle]]}/"
        if key not in self._groups:
            group = np.flatnonzero(of_space == of_space[bundle])
            if partition:
                of_topic = [PARTITION.sub("", names[at]) == topic for at in group.tolist()]
                group = group[np.array(of_topic, bool)]
            elif key == "/":  # names without a namespace have nothing in common
                group = group[:0]
            self._groups[key] = group
        return self._groups[key]


def _latency_part(snapshot: Snapshot) -> Floats:
    ms = latency_ms(snapshot, "metadata_latency_ms")
    known = np.isfinite(ms)
    ms = np.where(known, ms, median(ms[known]) if known.any() else 0.0)
    return np.asarray(ms / (ms + HALF_MS))


def _avoided(snapshot: Snapshot) -> dict[int, list[int]]:
    """Bundle -> the brokers that operators want it kept away from."""
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    result: dict[int, list[int]] = {}
    for wish in snapshot.frame.overrides:
        if wish.kind == AVOID and wish.broker in index:
            for at in match_override(snapshot, wish).tolist():
                result.setdefault(at, []).append(index[str(wish.broker)])
    return result
