"""Tells from the scores and skips of the newest rounds whether the balancer considers the cluster balanced. Pure.

The cluster is calm if, in `ROUNDS` consecutive rounds whose averages all began after the last event, nothing was
decided, nothing is moving, and no living broker is a source, counts rounds towards being one, or lacks load data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from controller.domain.decision import KeptPlan, PlanPhase
from controller.domain.ownership import IN_FLIGHT
from controller.domain.state import ClusterState
from controller.policy.strategies.steady.model import LEAST_LEVEL

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """One living broker in one round. `score` and `mean` are fractions, None where unknown; `why` is in words."""

    broker: str
    score: float | None
    mean: float | None
    why: str
    restless: bool  # a source, about to become one, or not evaluated at all

    @classmethod
    def from_row(
        cls, row: Mapping[str, Any], tolerance: float = 0.0, evidence: Mapping[str, Any] = MappingProxyType({})
    ) -> Standing:
        """From a row of a round's scores (`EvidenceView`) and the evidence of the broker's skip.

        `tolerance`: how far above the mean a broker may be, as a fraction of the mean. A broker that has come back
        within it keeps counting rounds until it is well within; one that has counted enough rounds and still is no
        source is not clearly above it.
        """
        above = (row["score"] or 0.0) - (row["mean"] or 0.0)
        beyond = above > tolerance * max(row["mean"] or 0.0, LEAST_LEVEL)
        waits = evidence.get("hits", 0) < evidence.get("hits_needed", math.inf)
        restless = bool(row["is_source"]) or (row["hits"] > 0 and beyond and waits) or not row["eligible"]
        why = f"{row.get('reason_words') or ''} ({row['reason']})".strip()
        return cls(row["broker"], row["score"], row["mean"], why, restless)


@dataclass(frozen=True, slots=True)
class Look:
    """A round of the strategy in charge: its time on the reports' axis, its decisions, the state of the brokers."""

    at_ms: int
    decided: int  # moves and splits
    standings: tuple[Standing, ...]

    @property
    def calm(self) -> bool:
        """Whether nothing is to do now or soon."""
        return not self.decided and not any(standing.restless for standing in self.standings)


def calm_since(looks: Sequence[Look], event_ms: int, horizon_ms: int, under_way: int) -> int | None:
    """The time of the first round of a long enough calm; None if the cluster is not calm yet."""
    running: list[Look] = []
    for look in looks:
        running = [*running, look] if look.calm and look.at_ms >= event_ms + horizon_ms else []
    return running[0].at_ms if len(running) >= ROUNDS and not under_way else None


def unrest(looks: Sequence[Look], under_way: Iterable[str], due: int = 0, plan: KeptPlan | None = None) -> list[str]:
    """Why the cluster is not calm, one line per broker or bundle, from the newest round.

    `due`: how many rounds should have run by now. `plan`: the one that holds others back.
    """
    found = [f"{bundle} is under way" for bundle in under_way]
    if plan is not None:
        found.append(describe_plan(plan))
    if len(looks) < due / 2:
        found.append(f"only {len(looks)} rounds came of {due} that were due: this machine is busy")
    if not looks:
        return found or ["no round yet"]
    newest = looks[-1]
    if newest.decided:
        found.append(f"the newest round still decided {newest.decided} moves or splits")
    found += [_describe(standing) for standing in newest.standings if standing.restless]
    return found or [f"all is well in the newest round, but not yet in {ROUNDS} running"]


def describe_plan(plan: KeptPlan) -> str:
    """How a plan that needs an approval, or was decided about, holds back the moves of later rounds."""
    if plan.phase is PlanPhase.DECLINED:
        by = f" by {plan.who}" if plan.who else ""
        return f"the plan of round {plan.round_id} was declined{by}, which holds others of its size back for a while"
    what = "waits for an approval" if plan.phase is PlanPhase.WAITING else "is being carried out"
    return f"the plan of round {plan.round_id} {what}, and other moves are held back meanwhile"


def _describe(standing: Standing) -> str:
    if standing.score is None or standing.mean is None:
        return f"{standing.broker} has no known load: {standing.why}"
    return f"{standing.broker} is {standing.score:.1%} busy where {standing.mean:.1%} would be even: {standing.why}"


def list_under_way(state: ClusterState) -> list[str]:
    """The bundles that are being handed over or split."""
    return sorted(name for name, record in state.bundles.items() if record.state in IN_FLIGHT)
