"""Is the cluster at rest, by the balancer's own word? From the scores and skips of its newest rounds. Pure.

Calm is: in `ROUNDS` rounds running, all of whose averages began after the last event, nothing was decided, nothing is
under way, and no living broker is a source, counts rounds towards being one, or lacks load data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from controller.policy.strategies.steady.model import LEAST_LEVEL

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """One living broker in one round. `score` and `mean` are fractions, None where unknown; `why` is in words."""

    broker: str
    score: float | None
    mean: float | None
    why: str
    restless: bool  # a source, on the way to being one, or not judged at all

    @classmethod
    def from_row(
        cls, row: Mapping[str, Any], tolerance: float = 0.0, evidence: Mapping[str, Any] = MappingProxyType({})
    ) -> Standing:
        """A row of a round's scores as `EvidenceView` has it; `evidence` is that of the broker's skip.

        `tolerance`: what of the mean a broker may be above it. One that has come back within it goes on counting
        rounds until it is well within; one that has counted enough and still is no source is not clearly above it.
        """
        above = (row["score"] or 0.0) - (row["mean"] or 0.0)
        beyond = above > tolerance * max(row["mean"] or 0.0, LEAST_LEVEL)
        waits = evidence.get("hits", 0) < evidence.get("hits_needed", math.inf)
        restless = bool(row["is_source"]) or (row["hits"] > 0 and beyond and waits) or not row["eligible"]
        why = f"{row.get('reason_words') or ''} ({row['reason']})".strip()
        return cls(row["broker"], row["score"], row["mean"], why, restless)


@dataclass(frozen=True, slots=True)
class Look:
    """A round of the strategy in charge: its time on the reports' axis, what it decided, how brokers stood."""

    at_ms: int
    decided: int  # moves and splits
    standings: tuple[Standing, ...]

    @property
    def calm(self) -> bool:
        """Nothing to do, and nothing to come."""
        return not self.decided and not any(standing.restless for standing in self.standings)


def calm_since(looks: Sequence[Look], event_ms: int, horizon_ms: int, under_way: int) -> int | None:
    """The time of the round from which on all is calm, once that has lasted; None: not (yet)."""
    running: list[Look] = []
    for look in looks:
        running = [*running, look] if look.calm and look.at_ms >= event_ms + horizon_ms else []
    return running[0].at_ms if len(running) >= ROUNDS and not under_way else None


def unrest(looks: Sequence[Look], under_way: Iterable[str], due: int = 0) -> list[str]:
    """Why it is not calm, a line a broker or bundle: what the newest round says of it. `due`: rounds that should have
    been looked at by now."""
    found = [f"{bundle} is under way" for bundle in under_way]
    if len(looks) < due / 2:
        found.append(f"only {len(looks)} rounds came of {due} that were due: this machine is busy")
    if not looks:
        return found or ["no round yet"]
    newest = looks[-1]
    if newest.decided:
        found.append(f"the newest round still decided {newest.decided} moves or splits")
    found += [_told(standing) for standing in newest.standings if standing.restless]
    return found or [f"all is well in the newest round, but not yet in {ROUNDS} running"]


def _told(standing: Standing) -> str:
    if standing.score is None or standing.mean is None:
        return f"{standing.broker} has no known load: {standing.why}"
    return f"{standing.broker} is {standing.score:.1%} busy where {standing.mean:.1%} would be even: {standing.why}"
