"""Decisions of `steady` as values: moves, splits and skips with what was seen and what is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.load import SCORE_UNIT
from controller.policy.decisions import make_transfer
from controller.policy.strategies.steady.model import in_units
from controller.policy.view.snapshot import Snapshot

NAME = "steady"


def move_decision(
    snapshot: Snapshot, bundle: int, way: tuple[int, int], before: tuple[float, float], after: tuple[float, float],
    reason: Reason, evidence: Mapping[str, Any],
) -> Decision:  # fmt: skip
    """A transfer along `way` (source, target), with both scores before and after."""
    told = [[in_units(score) / SCORE_UNIT for score in scores] for scores in (before, after)]
    return make_transfer(snapshot, bundle, way, *told, reason=reason, strategy=NAME, evidence=evidence)


def split_decision(
    snapshot: Snapshot, bundle: int, source: int, boundary: int, evidence: Mapping[str, Any]
) -> Decision:
    """A split so that one part can move; void when the bundle's epoch has moved on."""
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


def skip_decision(broker: str, reason: Reason, evidence: Mapping[str, Any]) -> Decision:
    """Why this broker gave nothing away."""
    return Decision("", DecisionKind.SKIP, Label.SKIP, reason, source=broker, strategy=NAME, evidence=evidence)
