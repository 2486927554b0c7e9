"""How much one round may do. A hard guard behind every strategy, whatever the strategy believes (invariant I7).

The halves of an exchange stand or fall together: one alone would make the balance worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.policy.limits.rate_limits import Purses

MAX_SPLITS_PER_ROUND = 10  # Pulsar: loadBalancerMaxNumberOfBundlesToSplitPerCycle
_MOVES = (DecisionKind.TRANSFER, DecisionKind.UNLOAD)
_LIMITED = (*_MOVES, DecisionKind.SPLIT)


def pace(
    decisions: Iterable[Decision], max_moves: int, max_splits: int = MAX_SPLITS_PER_ROUND, purses: Purses | None = None
) -> list[Decision]:
    """The decisions in order; what is over budget, or names a bundle a second time, becomes a skip with its reason.

    `purses`: the token buckets of brokers, namespaces and cluster, from which every move that passes takes its tokens.
    """
    decisions = list(decisions)
    guard = _Guard({DecisionKind.TRANSFER: max_moves, DecisionKind.SPLIT: max_splits}, purses)
    partners = _partners(decisions)
    result: dict[int, Decision] = {}
    for at, decision in enumerate(decisions):
        if decision.kind not in _LIMITED:
            result[at] = decision
        elif at not in result:
            together = sorted({at, partners.get(at, at)})
            result |= zip(together, guard.judge([decisions[one] for one in together]), strict=True)
    return [result[at] for at in range(len(decisions))]


def without_lone_halves(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Of an exchange whose other half has become a skip, this half becomes one, too, for the same reason."""
    lost = {d.bundle: d.reason for d in decisions if d.kind is DecisionKind.SKIP and d.exchanged_with}
    return tuple(
        skipped(d, lost[d.exchanged_with]) if d.kind in _MOVES and d.exchanged_with in lost else d for d in decisions
    )


def skipped(decision: Decision, reason: Reason, **told: str) -> Decision:
    """The same decision as something that will not be done; what it would have been stays in the evidence."""
    evidence = {**decision.evidence, "would_be": decision.kind.value, "would_be_reason": decision.reason.value, **told}
    return replace(
        decision, kind=DecisionKind.SKIP, label=Label.SKIP, reason=reason, evidence=evidence, before={}, after={}
    )


class _Guard:
    """What is left of the round's budgets, and the bundles named so far."""

    def __init__(self, left: dict[DecisionKind, int], purses: Purses | None) -> None:
        self._left, self._purses = left, purses
        self._named: set[str] = set()

    def judge(self, together: list[Decision]) -> list[Decision]:
        """A decision, or the halves of an exchange: all of them pass, or none."""
        purse = DecisionKind.SPLIT if together[0].kind is DecisionKind.SPLIT else DecisionKind.TRANSFER
        charged = [d for d in together if d.kind in _MOVES and d.reason is not Reason.OVERRIDDEN]
        if any(d.bundle in self._named for d in together):
            return [skipped(d, Reason.IN_FLIGHT) for d in together]
        if self._left[purse] < len(together):
            return [skipped(d, Reason.BUDGET_SPENT) for d in together]
        empty = self._purses.empty(charged) if self._purses is not None else None
        if empty is not None:
            return [skipped(d, Reason.BUDGET_SPENT, paced_by=empty) for d in together]
        self._left[purse] -= len(together)
        self._named |= {d.bundle or "" for d in together}
        if self._purses is not None:
            for move in charged:
                self._purses.take(move)
        return together


def _partners(decisions: Sequence[Decision]) -> dict[int, int]:
    """Index of each half of an exchange -> index of the other."""
    at = {d.bundle: index for index, d in enumerate(decisions) if d.kind in _MOVES and d.exchanged_with}
    return {
        index: at[decisions[index].exchanged_with] for index in at.values() if decisions[index].exchanged_with in at
    }
