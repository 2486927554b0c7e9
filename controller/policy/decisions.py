"""Transfers and skips as decisions, made here for all strategies so that all of them state the same things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.policy.view.snapshot import Snapshot


def make_transfer(
    snapshot: Snapshot, bundle: int, ends: tuple[int, int], before: Sequence[float], after: Sequence[float],
    *, reason: Reason, strategy: str, evidence: Mapping[str, Any] | None = None,
) -> Decision:  # fmt: skip
    """A move of the bundle between `ends` (source, target), with the scores of both before and after, as fractions.

    The decision is void once the bundle's epoch has changed.
    """
    source, target = (snapshot.brokers[end] for end in ends)
    return Decision(
        id="",
        kind=DecisionKind.TRANSFER,
        label=Label.SUCCESS,
        reason=reason,
        bundle=snapshot.bundles[bundle],
        source=source,
        target=target,
        epoch=int(snapshot.epoch[bundle]),
        strategy=strategy,
        evidence=evidence or {},
        before=dict(zip((source, target), before, strict=True)),
        after=dict(zip((source, target), after, strict=True)),
    )


def make_skip(decision: Decision, reason: Reason, **details: str) -> Decision:
    """The decision as one that is not carried out; its evidence keeps what it would have been, with the details."""
    would_be = {"would_be": decision.kind.value, "would_be_reason": decision.reason.value}
    return replace(
        decision,
        kind=DecisionKind.SKIP,
        label=Label.SKIP,
        reason=reason,
        evidence={**decision.evidence, **would_be, **details},
        before={},
        after={},
    )
