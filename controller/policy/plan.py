"""One strategy's plan on one snapshot: sufficiency -> constraints -> overrides -> strategy -> splits -> pacing.

What the round of the job and a line of `ballast decide` have in common, so that both decide alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.settings import PolicySettings
from controller.policy.constraints import constrain
from controller.policy.overrides import apply_overrides, without_avoided
from controller.policy.pacing import pace, skipped
from controller.policy.snapshot import Snapshot
from controller.policy.split import propose
from controller.policy.strategies import StrategyOutcome, get
from controller.policy.sufficiency import assess
from controller.policy.weighed import with_candidates

# Pulsar's own strategies have limits of their own; under a budget they would not be what others are compared with
UNBUDGETED = frozenset({"overload", "threshold", "uniform", "average", "transfer", "simple"})


@dataclass(frozen=True, slots=True)
class Plan:
    """One strategy's decisions on one snapshot, which has every block filled in."""

    snapshot: Snapshot
    outcome: StrategyOutcome
    decisions: tuple[Decision, ...]


def make_plan(snapshot: Snapshot, strategy: str, memory: Mapping[str, Any], settings: PolicySettings) -> Plan:
    """Decide on a snapshot as `from_frame` gives it. Raises ConfigError for an unknown strategy."""
    deciding = get(strategy)
    snapshot, wanted = apply_overrides(constrain(assess(snapshot, settings), settings))
    outcome = deciding.decide(snapshot, memory, settings)
    shed = with_candidates(snapshot, outcome)
    shed = shed if settings.shed.enabled else _switched_off(shed)
    shed = (*wanted, *without_avoided(snapshot, shed))
    taken = {d.bundle for d in shed if d.kind is not DecisionKind.SKIP and d.bundle is not None}
    splits = propose(snapshot, settings.split, taken)
    most = settings.shed.max_moves_per_round if outcome.max_moves is None else outcome.max_moves
    most = len(shed) if deciding.name in UNBUDGETED else most + len(wanted)
    return Plan(snapshot, outcome, tuple(pace([*shed, *splits], most)))


def _switched_off(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """What shedding would have done, as skips: scores and hits go on, so that switching on acts on fresh knowledge."""
    return tuple(d if d.kind is DecisionKind.SKIP else skipped(d, Reason.SWITCHED_OFF) for d in decisions)
