"""What one round of `steady` did and did not do, and why: for every broker one reason, for every move its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.decision import Decision, Reason
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.steady.capacity import Capacity
from controller.policy.strategies.steady.hits import Hits
from controller.policy.strategies.steady.model import Model, in_units
from controller.policy.strategies.steady.pairs import SHOWN, Pairs
from controller.policy.strategies.steady.wording import skip_decision
from controller.policy.view.reason_codes import ALLOWED, REASONS, count_reasons
from controller.policy.view.snapshot import Snapshot

SHOWN_LATER = 5  # pairs shown with a source's second and later moves


class Record:
    """`moves` in the order they were chosen; `visited`: brokers whose bundles were looked into."""

    def __init__(
        self, snapshot: Snapshot, capacity: Capacity, model: Model, hits: Hits, settings: PolicySettings
    ) -> None:
        self.snapshot, self.capacity, self.model, self.hits = snapshot, capacity, model, hits
        self.tolerance = settings.steady.tolerance
        # of each broker: whether those it shares work with are too few
        self.short: list[bool] = (model.levels >= settings.shed.overloaded_threshold).tolist()
        self.moves: list[Decision] = []
        self.reasons = {at: self._reason_at_first(at) for at in range(len(snapshot.brokers))}
        self.evidence: dict[int, dict[str, Any]] = {}
        self.acted: set[int] = set()
        self.visited = np.zeros(len(snapshot.brokers), bool)

    def note(self, source: int, decision: Decision) -> None:
        """A move or split off the source; its first one names the source's reason."""
        if source not in self.acted:
            self.reasons[source] = decision.reason
        self.acted.add(source)
        self.moves.append(decision)

    def deny(self, source: int, reason: Reason, evidence: Mapping[str, Any] | None = None) -> None:
        """Why the source gets nothing (more). One that gave something away keeps the reason it did so for."""
        if source not in self.acted:
            self.reasons[source] = reason
            self.evidence[source] = {**self.seen(source), **(evidence or {})}

    def lost(self, pairs: Pairs) -> dict[str, Any]:
        """The best pairs and the rule each lost by; fewer of them once the source has given something away."""
        most = SHOWN_LATER if pairs.candidates.source in self.acted else SHOWN
        shown: dict[str, Any] = {"pairs": pairs.shown(self.snapshot.bundles, self.snapshot.brokers, most)}
        ruled_out = self.model.forbidden(pairs.candidates.bundles, pairs.targets)
        if ruled_out is not None and (ruled_out != ALLOWED).any():
            shown["pairs_lost"] = count_reasons(ruled_out[ruled_out != ALLOWED])
        return shown

    def seen(self, at: int) -> dict[str, Any]:
        """What the broker was judged by: scores in 1 / SCORE_UNIT, the rounds it was above and the rounds asked for."""
        seen: dict[str, Any] = {
            "score": in_units(float(self.model.score[at])),
            "mean": in_units(float(self.model.levels[at])),
            "hits": int(self.hits.runs[at]),
            "hits_needed": int(self.hits.needed[at]),
        }
        if self.short[at]:
            seen["under_provisioned"] = True
        if self.capacity.speed[at] != 1.0:
            seen["cost_permille"] = round(1000 * float(self.capacity.speed[at]))
        if self.model.base[at] > 0:
            seen["base"] = in_units(float(self.model.base[at]))
        return seen

    def skips(self) -> list[Decision]:
        """One for every broker that gave nothing away."""
        return [
            skip_decision(name, self.reasons[at], self.evidence.get(at) or self.seen(at))
            for at, name in enumerate(self.snapshot.brokers)
            if at not in self.acted
        ]

    def _reason_at_first(self, at: int) -> Reason:
        block = int(self.snapshot.source_block[at])
        if block != ALLOWED:
            return REASONS[block]
        if self.capacity.impossible[at]:
            return Reason.NO_LOAD_DATA
        if self.capacity.foreign[at] or self.model.occupied[at]:
            return Reason.EXTERNAL_LOAD
        closed = int(self.snapshot.target_block[at])
        if self.hits.idle[at] and closed != ALLOWED:
            return REASONS[closed]  # what keeps it empty
        if self.short[at]:
            return Reason.UNDER_PROVISIONED
        if self.hits.runs[at] > 0:
            return Reason.HIT_COUNT
        if self.capacity.slow[at]:
            return Reason.SLOW_BROKER
        return Reason.BELOW_MINIMUM_LOAD if self._only_below_minimum(at) else Reason.BALANCED

    def _only_below_minimum(self, at: int) -> bool:
        """Above the tolerance of a level so low that it is not worth a move."""
        tolerance = 1 + self.tolerance
        level = self.model.levels[at]
        return bool(level < self.model.norms[at] and self.model.score[at] > level * tolerance)
