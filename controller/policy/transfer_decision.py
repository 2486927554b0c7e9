"""A transfer as a decision. Every strategy's moves are made here, so that all of them say the same things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.policy.view.snapshot import Snapshot


def transfer_decision(
    snapshot: Snapshot, bundle: int, way: tuple[int, int], before: Sequence[float], after: Sequence[float],
    *, reason: Reason, strategy: str, evidence: Mapping[str, Any] | None = None,
) -> Decision:  # fmt: skip
    """The bundle goes along `way` (source, target); their scores before and after are fractions. Void when the bundle's
    epoch has moved on."""
    names = snapshot.brokers[way[0]], snapshot.brokers[way[1]]
    return Decision(
        id="",
        kind=DecisionKind.TRANSFER,
        label=Label.SUCCESS,
        reason=reason,
        bundle=snapshot.bundles[bundle],
        source=names[0],
        target=names[1],
        epoch=int(snapshot.epoch[bundle]),
        strategy=strategy,
        evidence=evidence or {},
        before=dict(zip(names, before, strict=True)),
        after=dict(zip(names, after, strict=True)),
    )
