"""All bundle-target pairs of one source: what each would bring, and the first rule each one fails.

A pair's rank is one integer: first those that leave the source at or above the mean, then the source closest to the
mean, then the lower score of the target, then bundle name and broker id. So equal pairs are told apart the same way
everywhere, and the best twenty can be shown with the rule each lost by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import exceeds_caps
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS
from controller.policy.what_if import Model

MIN_GAIN = 10  # a move must take at least a tenth of a point off the pair's maximum
MOST_TARGETS = 128  # the least loaded ones; whoever comes after them only adds load to a fuller broker
SHOWN = 20
_BITS = 16  # of a score or distance within a rank; larger ones count as equally bad
_TOP = (1 << _BITS) - 1


@dataclass(frozen=True, eq=False)
class Pairs:
    """n bundles of one source x t targets. Scores in 1 / SCORE_UNIT."""

    bundles: Ints  # [n]
    targets: Ints  # [t]
    source_after: Ints  # [n]
    target_after: Ints  # [n x t]
    rule: Ints  # [n x t] ALLOWED or the index into REASONS of the rule that the pair fails
    rank: Ints  # [n x t] smaller is better, no two equal

    def best(self) -> tuple[int, int] | None:
        """Index of the best allowed pair, as (row, column)."""
        if not (self.rule == ALLOWED).any():
            return None
        at = int(np.argmin(np.where(self.rule == ALLOWED, self.rank, np.iinfo(np.int64).max)))
        return divmod(at, len(self.targets))

    def obstacle(self) -> Reason:
        """The rule that the best-ranked pair fails among those whose bundle may move at all."""
        return REASONS[int(self.rule.flat[int(np.argmin(self.rank))])]

    def shown(self, bundles: tuple[str, ...], brokers: tuple[str, ...]) -> list[dict[str, Any]]:
        """The best SHOWN pairs in order, with predicted scores and the rule each lost by."""
        count = min(SHOWN, self.rank.size)
        if count == 0:
            return []
        flat = self.rank.ravel()
        first = np.argpartition(flat, count - 1)[:count]
        rows = []
        for at in first[np.argsort(flat[first])].tolist():
            row, column = divmod(at, len(self.targets))
            code = int(self.rule[row, column])
            rows.append(
                {
                    "bundle": bundles[self.bundles[row]],
                    "target": brokers[self.targets[column]],
                    "source_after": int(self.source_after[row]),
                    "target_after": int(self.target_after[row, column]),
                    "lost_by": "" if code == ALLOWED else REASONS[code].value,
                }
            )
        return rows


def plausible_targets(
    model: Model, source: int, settings: PolicySettings, bundles: Ints
) -> tuple[Ints, dict[str, int]]:
    """The least loaded targets that some of the bundles might fit, by index, and how many others lost by which rule."""
    block = model.snapshot.target_block.copy()
    block[source] = CODES[Reason.STALE_DECISION]  # itself: left out below and not counted
    if model.placement_state is not None and len(bundles):
        reached = np.logical_or.reduce(model.placement_state.targets_of(bundles))
        block = np.where((block == ALLOWED) & ~reached, CODES[Reason.ISOLATION], block)
    full = exceeds_caps(model.totals, settings.caps, reached=True)
    block = np.where((block == ALLOWED) & full, CODES[Reason.BROKER_CAP], block)
    ceiling = int(model.means()[source]) + round(settings.shed.target_margin * SCORE_UNIT)
    block = np.where((block == ALLOWED) & (model.score >= ceiling), CODES[Reason.TARGET_ABOVE_MEAN], block)
    no_room = model.score > model.score[source] - MIN_GAIN
    block = np.where((block == ALLOWED) & no_room, CODES[Reason.WOULD_NOT_IMPROVE], block)
    others = np.arange(len(block)) != source
    codes, counts = np.unique(block[others & (block != ALLOWED)], return_counts=True)
    lost = {REASONS[code].value: int(n) for code, n in zip(codes.tolist(), counts.tolist(), strict=True)}
    left = np.flatnonzero(block == ALLOWED)
    least = left[np.argsort(model.score[left], kind="stable")[:MOST_TARGETS]]
    return np.sort(least), lost


def evaluate(model: Model, source: int, bundles: Ints, targets: Ints, settings: PolicySettings) -> Pairs:
    """Judge every pair against the model as it stands. Needs at least one bundle and one target."""
    mean = int(model.means()[source])
    margin = round(settings.shed.target_margin * SCORE_UNIT)
    before = int(model.score[source])
    source_after = model.source_after(source, bundles)
    target_after = model.target_after(bundles, targets)
    after = source_after[:, None]
    rules = (
        (_breaks_cap(model, bundles, targets, settings), Reason.BROKER_CAP),
        (target_after >= mean + margin, Reason.TARGET_ABOVE_MEAN),
        (np.maximum(after, target_after) > before - MIN_GAIN, Reason.WOULD_NOT_IMPROVE),
        # more than half the gap would only make the target the next source
        (target_after > after + margin, Reason.WOULD_NOT_IMPROVE),
    )
    rule = np.select([hit for hit, _ in rules], [CODES[reason] for _, reason in rules], ALLOWED)
    if model.placement_state is not None:
        forbidden = model.placement_state.codes(bundles, targets)
        rule = np.where(forbidden != ALLOWED, forbidden, rule)
    below = np.asarray(after < mean, np.int64)
    distance = np.minimum(np.abs(after - mean), _TOP)
    order = np.arange(rule.size, dtype=np.int64).reshape(rule.shape)
    rank = (((below << _BITS | distance) << _BITS | np.minimum(target_after, _TOP)) << 30) | order
    return Pairs(bundles, targets, source_after, target_after, rule, rank)


def _breaks_cap(model: Model, bundles: Ints, targets: Ints, settings: PolicySettings) -> np.ndarray[Any, Any]:
    caps = settings.caps
    if caps.max_topics is None and caps.max_bundle_memory_bytes is None and caps.max_throughput_bytes_per_s is None:
        return np.zeros((len(bundles), len(targets)), bool)
    totals = model.totals[targets][None, :, :] + model.snapshot.fields[bundles][:, None, :]
    return exceeds_caps(totals, caps)
