"""One strategy's plan on one snapshot: sufficiency -> constraints -> overrides -> strategy -> splits -> pacing.

What the round of the job and a line of `ballast decide` have in common, so that both decide alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import LIVE
from controller.policy.candidate_evidence import with_candidates
from controller.policy.limits.pacing import pace, skipped, without_lone_halves
from controller.policy.limits.rate_limits import Purses
from controller.policy.overrides import apply_overrides, with_done, without_avoided
from controller.policy.placement.constraints import constrain
from controller.policy.split import propose
from controller.policy.strategies import StrategyOutcome, get
from controller.policy.view.snapshot import Snapshot
from controller.policy.view.sufficiency import assess
from controller.policy.within_rules import within_rules

PACING = "pacing"  # in a strategy's memory
# Pulsar's own strategies have limits of their own; under a budget they would not be what others are compared with
UNBUDGETED = frozenset({"overload", "threshold", "uniform", "average", "transfer", "simple"})


@dataclass(frozen=True, slots=True)
class Plan:
    """One strategy's decisions on one snapshot, which has every block filled in and nothing of them done."""

    snapshot: Snapshot
    outcome: StrategyOutcome
    decisions: tuple[Decision, ...]


def make_plan(
    snapshot: Snapshot,
    strategy: str,
    memory: Mapping[str, Any],
    settings: PolicySettings,
    challenger: bool = False,
    candidates: bool = True,
) -> Plan:
    """Decide on a snapshot as `from_frame` gives it. Raises ConfigError for an unknown strategy.

    `memory`: the strategy's, with what pacing remembers under `PACING`. A challenger's moves are nobody's failures.
    `candidates`: whether the evidence lists those of strategies that judge no pairs; a backtest reads no evidence.
    """
    deciding = get(strategy)
    purses = None
    if deciding.name not in UNBUDGETED:
        purses = Purses(snapshot, settings.pacing, memory.get(PACING, {}))
        snapshot = replace(snapshot, room=purses.room())
    snapshot, wanted = apply_overrides(constrain(assess(snapshot, settings), settings))
    asked = sum(d.kind is not DecisionKind.SKIP for d in wanted)
    allowed = within_rules(snapshot, settings.caps, wanted)
    done = with_done(snapshot, allowed)
    seen = snapshot if purses is None else done  # Pulsar's strategies go by what brokers have reported
    outcome = deciding.decide(seen, {key: kept for key, kept in memory.items() if key != PACING}, settings)
    shed = with_candidates(seen, outcome) if candidates else outcome.decisions
    shed = shed if settings.shed.enabled else _switched_off(shed)
    shed = within_rules(done, settings.caps, without_avoided(done, shed))
    shed = without_lone_halves((*allowed, *shed))
    taken = {d.bundle for d in shed if d.kind is not DecisionKind.SKIP and d.bundle is not None}
    splits = propose(snapshot, settings.split, taken)
    if purses is None:
        return Plan(snapshot, outcome, tuple(pace([*shed, *splits], len(shed))))
    own = outcome.max_moves
    most = snapshot.room.budget(settings.shed.max_moves_per_round) if own is None else own
    decisions = tuple(pace([*shed, *splits], most + asked, purses=purses))
    kept = purses.after(decisions, carried_out=snapshot.frame.mode == LIVE and not challenger)
    if kept:
        outcome = replace(outcome, memory={**outcome.memory, PACING: kept})
    return Plan(snapshot, outcome, decisions)


def _switched_off(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """What shedding would have done, as skips: scores and hits go on, so that switching on acts on fresh knowledge."""
    return tuple(d if d.kind is DecisionKind.SKIP else skipped(d, Reason.SWITCHED_OFF) for d in decisions)
