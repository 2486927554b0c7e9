"""What a round of `steady` says: what brokers were judged by, why one gives nothing, what would help a bundle too big.

A bundle that is too big to move is split where that helps: it must carry at least half of its broker's excess, have two
topics and two hashes, its namespace must be below its maximum, and splitting switched on. Where it cannot be split the
evidence has advice, once an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.ids import Bundle
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import PolicySettings, SplitSettings
from controller.policy.split import range_of, unsplittable
from controller.policy.strategies.steady.model import Model, in_units
from controller.policy.strategies.steady.pairs import Candidates, Judged
from controller.policy.strategies.steady.timing import Timing
from controller.policy.view.frame import namespace_of_bundle
from controller.policy.view.reason_codes import ALLOWED, REASONS, count_reasons
from controller.policy.view.snapshot import Snapshot

NAME = "steady"
AGAIN_MS = 3_600_000  # until the same advice is repeated
CARRIES = 0.5  # of the excess: a smaller bundle is not what makes its broker hot
_TOPICS = BUNDLE_FIELDS.index("topics")
ADVICE = {
    Reason.UNSPLITTABLE: "a single topic is too hot for any broker: add partitions, or give it a broker of its own",
    Reason.BUNDLE_LIMIT: "the namespace is at its maximum of bundles: raise split.namespace_maximum_bundles",
    Reason.SWITCHED_OFF: "splitting is switched off (split.enabled): cut the bundle by hand with `ballast split`",
}
PAIRS_LISTED, PAIRS_LISTED_LATER = 20, 5  # with a source's first move, with its later ones


class Evidence:
    """Of one round, as the model stands when asked."""

    def __init__(self, snapshot: Snapshot, model: Model, timing: Timing, settings: PolicySettings) -> None:
        self.snapshot, self.usage, self.model, self.timing = snapshot, model.usage, model, timing
        self.tolerance = settings.steady.tolerance

    def of_next(self, judged: Judged, row: int, column: int, first: int) -> dict[str, Any]:
        """Of a pair that follows others in the step that the bundle `first` began: what is predicted of it now. Other
        pairs were judged before those left."""
        pairs = judged.pairs
        chosen = {
            "bundle": self.snapshot.bundles[int(pairs.candidates.bundles[row])],
            "target": self.snapshot.brokers[int(pairs.targets[column])],
            "source_after": in_units(pairs.source_now(self.model, row)),
            "target_after": in_units(float(pairs.target_after[row, column])),
            "lost_by": "",
        }
        return {"pairs": [chosen], "follows": self.snapshot.bundles[first]}

    def of_pairs(self, judged: Judged, later: bool) -> dict[str, Any]:
        """The best pairs and the rule each lost by; fewer `later`, once the source has given something away."""
        most = PAIRS_LISTED_LATER if later else PAIRS_LISTED
        result: dict[str, Any] = {"pairs": judged.best_first(self.snapshot.bundles, self.snapshot.brokers, most)}
        ruled_out = self.model.forbidden(judged.pairs.candidates.bundles, judged.pairs.targets)
        if ruled_out is not None and (ruled_out != ALLOWED).any():
            result["pairs_lost"] = count_reasons(ruled_out[ruled_out != ALLOWED])
        return result

    def of_broker(self, at: int) -> dict[str, Any]:
        """What the broker was judged by: scores in 1 / SCORE_UNIT, the rounds it was above and the rounds asked for."""
        seen: dict[str, Any] = {
            "score": in_units(float(self.model.score[at])),
            "mean": in_units(float(self.model.levels[at])),
            "limit": in_units(float(self.timing.begin[at])),
            "hits": int(self.timing.runs[at]),
            "hits_needed": int(self.timing.needed[at]),
        }
        passing = float(self.model.peak[at] - self.model.only_read[at] - self.model.score[at])
        if in_units(passing) > 0:
            seen["passing"] = in_units(passing)
        if self.model.short[at]:
            seen["under_provisioned"] = True
        if round(1000 * float(self.usage.speed[at])) != 1000:
            seen["cost_permille"] = round(1000 * float(self.usage.speed[at]))
        if self.usage.backlog_s[at] > 0:
            seen["backlog_s"] = round(float(self.usage.backlog_s[at]))
        if self.model.base[at] > 0:
            seen["base"] = in_units(float(self.model.base[at]))
        if self.model.occupied[at] and self.model.foreign[at] > self.model.base[at]:
            seen["foreign"] = in_units(float(self.model.foreign[at]))
        return seen

    def first_reason(self, at: int) -> Reason:
        """Why a broker that may be a source gives nothing, before anything was tried."""
        if self.usage.impossible[at] or self.usage.blind[at]:
            return Reason.NO_LOAD_DATA
        if self.model.occupied[at]:
            return Reason.EXTERNAL_LOAD
        closed = int(self.snapshot.target_block[at])
        if self.timing.idle[at] and closed != ALLOWED:
            return REASONS[closed]  # what keeps it empty
        if self.model.short[at]:
            return Reason.UNDER_PROVISIONED
        if self.timing.runs[at] > 0:
            return Reason.HIT_COUNT
        if self.usage.slow[at]:
            return Reason.SLOW_BROKER
        return Reason.BELOW_MINIMUM_LOAD if self._only_below_minimum(at) else Reason.BALANCED

    def _only_below_minimum(self, at: int) -> bool:
        """Above the tolerance of a level so low that it is not worth a move."""
        tolerance = 1 + self.tolerance
        level = self.model.levels[at]
        return bool(level < self.model.norms[at] and self.model.score[at] > level * tolerance)


class Advice:
    """Remembers what was said of which bundle; `memory` is what `to_json` gave the round before."""

    def __init__(self, snapshot: Snapshot, settings: SplitSettings, memory: Mapping[str, Any]) -> None:
        self._snapshot, self._settings = snapshot, settings
        said: Mapping[str, Any] = memory.get("advised", {})
        self._said = {name: int(at) for name, at in said.items() if snapshot.at_ms - int(at) < AGAIN_MS}
        self._splitting: dict[str, int] = {}

    def split(self, model: Model, source: int, found: Candidates, row: int, excess: float) -> int | Reason | None:
        """The boundary to split the row's bundle at, why it cannot be split, or None when a split would not help.

        The middle of its range: its owner, which knows the topics' loads, moves the boundary to where they balance
        (`domain/balanced_boundary.py`).
        """
        alone = float(found.taken[:, row].max())
        bundle = int(found.bundles[row])
        if alone < CARRIES * excess or alone <= 0:
            return None
        obstacle = self.obstacle(bundle)
        if obstacle is not None:
            return obstacle
        name = self._snapshot.bundles[bundle]
        space = namespace_of_bundle(name)
        self._splitting[space] = self._splitting.get(space, 0) + 1
        return Bundle.parse(name).middle()

    def obstacle(self, bundle: int) -> Reason | None:
        """Why this bundle cannot be split, if it cannot."""
        name = self._snapshot.bundles[bundle]
        if not self._settings.enabled:
            return Reason.SWITCHED_OFF
        parsed = range_of(name)
        if parsed is None or unsplittable(parsed, float(self._snapshot.fields[bundle, _TOPICS])):
            return Reason.UNSPLITTABLE
        space = namespace_of_bundle(name)
        held = self._snapshot.frame.namespace_bundles.get(space, 0) + self._splitting.get(space, 0)
        return Reason.BUNDLE_LIMIT if held >= self._settings.namespace_maximum_bundles else None

    def for_bundle(self, bundle: int, reason: Reason) -> dict[str, Any]:
        """The evidence of a bundle that cannot be split; the advice itself only once an hour."""
        name = self._snapshot.bundles[bundle]
        evidence: dict[str, Any] = {"too_big": name}
        if name not in self._said and reason in ADVICE:
            self._said[name] = self._snapshot.at_ms
            evidence["advice"] = ADVICE[reason]
        return evidence

    def to_json(self) -> dict[str, int]:
        """What was said within the hour."""
        return dict(sorted(self._said.items()))


def split_decision(
    snapshot: Snapshot, bundle: int, source: int, boundary: int, evidence: Mapping[str, Any]
) -> Decision:
    """A split so that a half can move; void when the bundle's epoch has moved on."""
    return Decision(
        id="",
        kind=DecisionKind.SPLIT,
        label=Label.SUCCESS,
        reason=Reason.SPLIT_TO_BALANCE,
        bundle=snapshot.bundles[bundle],
        source=snapshot.brokers[source],
        epoch=int(snapshot.epoch[bundle]),
        boundary=boundary,
        strategy=NAME,
        evidence=evidence,
    )
