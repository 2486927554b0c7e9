"""The filter behind every strategy and the overrides: no move leaves a round that breaks a hard rule of placement.

Strategies that know the rules choose within them; of others (Pulsar's, or one that is new) a move to where its bundle
must not go becomes a skip with the rule as its reason. Moves count for the ones that come after them.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.settings.policy import BrokerCaps
from controller.policy.limits.pacing import skipped
from controller.policy.placement.constraints import over_caps
from controller.policy.placement.tables import tally_of
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Snapshot


def within_rules(snapshot: Snapshot, caps: BrokerCaps, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """The decisions in order. Isolation, anti-affinity and caps are judged as they stand after the moves before."""
    decisions = tuple(decisions)
    if not any(d.kind is DecisionKind.TRANSFER for d in decisions):
        return decisions
    guard = _Guard(snapshot, caps)
    result = []
    for decision in decisions:
        reason = guard.broken_by(decision)
        result.append(decision if reason is None else skipped(decision, reason))
    return tuple(result)


class _Guard:
    """What brokers hold after the moves so far."""

    def __init__(self, snapshot: Snapshot, caps: BrokerCaps) -> None:
        self._snapshot, self._caps = snapshot, caps
        self._index = {broker: at for at, broker in enumerate(snapshot.brokers)}
        self._tally = tally_of(snapshot)
        self._totals = snapshot.totals.copy()
        self._moved: set[int] = set()

    def broken_by(self, decision: Decision) -> Reason | None:
        """The rule that a move breaks; None: it breaks none, and is counted."""
        if decision.kind is not DecisionKind.TRANSFER or decision.bundle is None or decision.target is None:
            return None
        at, target = self._snapshot.place_of(decision.bundle), self._index.get(decision.target)
        if at is None or target is None:
            return None
        other = self._snapshot.place_of(decision.exchanged_with or "")
        if self._tally is not None:
            code = self._tally.code(at, target, exchange=other is not None)
            if code != ALLOWED:
                return REASONS[code]
        after = self._totals[target] + self._snapshot.fields[at]
        if other is not None and other not in self._moved:  # it leaves the target in return
            after = after - self._snapshot.fields[other]
        if bool(over_caps(after, self._caps)) and bool((after > self._snapshot.totals[target]).any()):
            return Reason.BROKER_CAP
        self._count(at, target)
        return None

    def _count(self, at: int, target: int) -> None:
        if self._tally is not None:
            self._tally.moved(at, target)
        self._totals[target] += self._snapshot.fields[at]
        owner = int(self._snapshot.owner[at])
        if owner >= 0:
            self._totals[owner] -= self._snapshot.fields[at]
        self._moved.add(at)
