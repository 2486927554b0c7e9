"""What one round of `weighted` did and did not do, and why: a reason for every broker, evidence for every move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.load import SCORE_UNIT
from controller.policy.decisions import make_transfer
from controller.policy.strategies.weighted.figures import Figures
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Snapshot
from controller.policy.what_if import Model

NAME = "weighted"
SHOWN, SHOWN_LATER = 20, 5  # pairs in evidence: of a source's first move, of its later ones
TARGETS_SHOWN = 4  # of each bundle


class Record:
    """`moves` in the order they were chosen; `visited`: brokers whose bundles were looked into."""

    def __init__(self, snapshot: Snapshot, figures: Figures, model: Model, hits: Ints, needed: int) -> None:
        self.snapshot, self.figures, self.model, self.hits, self.needed = snapshot, figures, model, hits, needed
        self.moves: list[Decision] = []
        self.acted: set[int] = set()
        self.evidence: dict[int, dict[str, Any]] = {}
        self.visited = np.zeros(len(snapshot.brokers), bool)
        over = figures.anyhow_over()
        self.reasons = {at: self._reason_at_first(at, bool(over[at])) for at in range(len(snapshot.brokers))}

    def note(
        self, bundle: int, way: tuple[int, int], before: Sequence[float], after: Sequence[float],
        evidence: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """A move along `way` (source, target)."""
        self.acted.add(way[0])
        self.reasons[way[0]] = Reason.OVERLOADED
        self.moves.append(
            make_transfer(
                self.snapshot, bundle, way, before, after, reason=Reason.OVERLOADED, strategy=NAME, evidence=evidence
            )
        )

    def deny(self, source: int, reason: Reason, evidence: Mapping[str, Any] | None = None) -> None:
        """Why the source gives nothing (more). One that gave something away keeps the reason it did so for."""
        if source not in self.acted:
            self.reasons[source] = reason
            self.evidence[source] = {**self.seen(source), **(evidence or {})}

    def seen(self, at: int) -> dict[str, Any]:
        """What the broker is judged by: permille of its limits, rounds over one of them and rounds asked for."""
        return {
            "score": int(self.model.score[at]),
            "limits": self.figures.told(at),
            "hits": int(self.hits[at]),
            "hits_needed": self.needed,
        }

    def pairs(self, source: int, bundles: Ints, targets: Ints, rules: Ints) -> list[dict[str, Any]]:
        """The first bundles in the order they are tried, each with its emptiest targets, those that may take it first.

        Fewer of them once the source has given something away.
        """
        most = SHOWN_LATER if source in self.acted else SHOWN
        bundles = bundles[: -(-most // min(TARGETS_SHOWN, len(targets)))]
        fullness, model = self.figures.after(bundles, targets), self.model
        lost = rules[: len(bundles)] != ALLOWED
        order = np.lexsort((np.rint(fullness * SCORE_UNIT), lost), axis=1)[:, :TARGETS_SHOWN]
        source_after = model.source_after(source, bundles)
        rows = []
        for row, bundle in enumerate(bundles.tolist()):
            shown = order[row]
            scores = model.target_after(np.array([bundle]), targets[shown])[0].tolist()
            for column, score in zip(shown.tolist(), scores, strict=True):
                code = int(rules[row, column])
                rows.append(
                    {
                        "bundle": self.snapshot.bundles[bundle],
                        "target": self.snapshot.brokers[targets[column]],
                        "source_after": int(source_after[row]),
                        "target_after": score,
                        "target_fullness": round(1000 * float(fullness[row, column])),
                        "lost_by": "" if code == ALLOWED else REASONS[code].value,
                    }
                )
        return rows[:most]

    def skips(self) -> list[Decision]:
        """One for every broker that gave nothing away."""
        return [
            Decision(
                "", DecisionKind.SKIP, Label.SKIP, self.reasons[at], source=name, strategy=NAME,
                evidence=self.evidence.get(at) or self.seen(at),
            )
            for at, name in enumerate(self.snapshot.brokers)
            if at not in self.acted
        ]  # fmt: skip

    def _reason_at_first(self, at: int, over: bool) -> Reason:
        block = int(self.snapshot.source_block[at])
        if block != ALLOWED:
            return REASONS[block]
        return Reason.HIT_COUNT if over else Reason.WITHIN_LIMITS
