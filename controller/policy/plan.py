"""One strategy's plan on one snapshot: sufficiency → constraints → overrides → strategy → splits → pacing.

A round of the job and a line of `ballast decide` both make their plan here, so that both decide alike.

Evidence has *candidates*: strategies that judge pairs of bundle and target list them themselves. Pulsar's shedders walk
the bundles of a source by traffic, largest first, and place afterwards what they take. So for each source of theirs the
MOST_CANDIDATES largest bundles are listed: with the target where one was moved, else with the rule that it lost by.
Only figures whose rows a round stores are used, so that a replay gives the same evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import LIVE
from controller.policy.decisions import make_skip
from controller.policy.overrides import apply_moves, apply_overrides, skip_avoided
from controller.policy.pacing import RateLimits, pace, skip_lone_halves
from controller.policy.placement.constraints import assess, constrain, enforce_rules
from controller.policy.split import propose_splits
from controller.policy.strategies import StrategyOutcome, get, traits_of
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Snapshot

PACING = "pacing"  # in a strategy's memory: what `RateLimits.remember` gives
MOST_CANDIDATES = 20
_IN, _OUT = BUNDLE_FIELDS.index("throughput_in"), BUNDLE_FIELDS.index("throughput_out")


@dataclass(frozen=True, slots=True)
class Plan:
    """One strategy's decisions on a snapshot with every block filled in, before any of them is carried out."""

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

    `memory`: the strategy's, with that of pacing under `PACING`. `challenger`: its moves are not carried out and cannot
    fail. `candidates`: whether to add candidates to the evidence; a backtest reads none.
    """
    deciding = get(strategy)
    rate_limits = None
    if traits_of(deciding).budgeted:
        rate_limits = RateLimits(snapshot, settings.pacing, memory.get(PACING, {}), settings.shed.overloaded_threshold)
        snapshot = replace(snapshot, quota=rate_limits.quota)
    snapshot, wanted = apply_overrides(constrain(assess(snapshot, settings), settings))
    asked = sum(d.kind is not DecisionKind.SKIP for d in wanted)
    allowed = enforce_rules(snapshot, settings.caps, wanted)
    done = apply_moves(snapshot, allowed)
    seen = snapshot if rate_limits is None else done  # one without a budget sees what brokers have reported
    outcome = deciding.decide(seen, {key: kept for key, kept in memory.items() if key != PACING}, settings)
    shed = add_candidates(seen, outcome) if candidates else outcome.decisions
    shed = shed if settings.shed.enabled else _skip_all(shed)
    shed = enforce_rules(done, settings.caps, skip_avoided(done, shed))
    shed = skip_lone_halves((*allowed, *shed))
    splits = propose_splits(snapshot, settings.split, shed)
    if rate_limits is None:
        return Plan(snapshot, outcome, tuple(pace([*shed, *splits], len(shed))))
    own = outcome.max_moves
    most = snapshot.quota.allow(settings.shed.max_moves_per_round) if own is None else own
    decisions = tuple(pace([*shed, *splits], most + asked, rate_limits=rate_limits))
    kept = rate_limits.remember(decisions, carried_out=snapshot.frame.mode == LIVE and not challenger)
    if kept:
        outcome = replace(outcome, memory={**outcome.memory, PACING: kept})
    return Plan(snapshot, outcome, decisions)


def add_candidates(snapshot: Snapshot, outcome: StrategyOutcome) -> tuple[Decision, ...]:
    """The outcome's decisions; the first about each source has `candidates` where the strategy lists no `pairs`."""
    sources = {str(row["broker"]) for row in outcome.scores if row["source"]}
    if not sources or any("pairs" in d.evidence for d in outcome.decisions):
        return outcome.decisions
    targets = {d.bundle: d.target for d in outcome.decisions if d.kind is not DecisionKind.SKIP and d.bundle}
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    result: list[Decision] = []
    for decision in outcome.decisions:
        if decision.source in sources:
            sources.remove(decision.source)
            held = snapshot.bundles_of(index[decision.source])
            if len(held) and outcome.considered[held].all():
                rows = _list_candidates(snapshot, held, targets, decision)
                decision = replace(decision, evidence={**decision.evidence, "candidates": rows})
        result.append(decision)
    return tuple(result)


def _list_candidates(
    snapshot: Snapshot, held: Ints, targets: Mapping[str, str | None], decision: Decision
) -> Sequence[dict[str, Any]]:
    traffic = np.rint(snapshot.fields[held, _IN] + snapshot.fields[held, _OUT]).astype(np.int64)
    largest = np.argsort(-traffic, kind="stable")[:MOST_CANDIDATES]
    # a source that gave something away kept the others because that was enough; one that gave nothing says why
    stayed = decision.reason if decision.kind is DecisionKind.SKIP else Reason.ENOUGH_CHOSEN
    rows = []
    for at, bytes_per_s in zip(held[largest].tolist(), traffic[largest].tolist(), strict=True):
        name, block = snapshot.bundles[at], int(snapshot.bundle_block[at])
        lost = "" if name in targets else (stayed if block == ALLOWED else REASONS[block]).value
        rows.append({"bundle": name, "throughput": bytes_per_s, "target": targets.get(name), "lost_by": lost})
    return rows


def _skip_all(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """Moves as skips while shedding is off: scores and hits go on, so that it acts on fresh knowledge once it is on."""
    return tuple(d if d.kind is DecisionKind.SKIP else make_skip(d, Reason.SWITCHED_OFF) for d in decisions)
