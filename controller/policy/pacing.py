"""How much one round may do. A hard guard behind every strategy, whatever the strategy believes (invariant I7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.domain.decision import Decision, DecisionKind, Label, Reason

MAX_SPLITS_PER_ROUND = 10  # Pulsar: loadBalancerMaxNumberOfBundlesToSplitPerCycle
_LIMITED = (DecisionKind.TRANSFER, DecisionKind.UNLOAD, DecisionKind.SPLIT)


def pace(decisions: Iterable[Decision], max_moves: int, max_splits: int = MAX_SPLITS_PER_ROUND) -> list[Decision]:
    """The decisions in order; what is over budget, or names a bundle a second time, becomes a skip with its reason."""
    left = {DecisionKind.TRANSFER: max_moves, DecisionKind.SPLIT: max_splits}
    named: set[str] = set()
    result = []
    for decision in decisions:
        if decision.kind not in _LIMITED:
            result.append(decision)
            continue
        purse = DecisionKind.SPLIT if decision.kind is DecisionKind.SPLIT else DecisionKind.TRANSFER
        if decision.bundle in named:
            decision = skipped(decision, Reason.IN_FLIGHT)
        elif left[purse] <= 0:
            decision = skipped(decision, Reason.BUDGET_SPENT)
        else:
            left[purse] -= 1
            named.add(decision.bundle or "")
        result.append(decision)
    return result


def skipped(decision: Decision, reason: Reason) -> Decision:
    """The same decision as something that will not be done; what it would have been stays in the evidence."""
    evidence = {**decision.evidence, "would_be": decision.kind.value, "would_be_reason": decision.reason.value}
    return replace(
        decision, kind=DecisionKind.SKIP, label=Label.SKIP, reason=reason, evidence=evidence, before={}, after={}
    )
