"""When a deviation is acted on: the larger it is, the sooner; one that ends by itself never is.

Every broker's deviation from the level (permille) is kept for some rounds. A *run* is the rounds running in which it
was above the tolerance. A broker is a source when the run is long enough for what it shows throughout:

| deviation | rounds | on an overloaded broker |
| --- | --- | --- |
| >= 50 % | 1 | 1 |
| >= 40 % | 2 | 2 |
| >= 20 % | `PATIENCE` = 4 | 2 |
| >= 10 % | 6 | 2 |
| above the tolerance | 8 | 4 |

A run that began after a calm round may end as it began: it takes `PATIENCE` rounds at least, unless the broker is
overloaded and at twice the level, or a move had just brought it something: what was moved there stays. Where more than
two rounds are asked for, their mean must exceed the tolerance by more than its noise. `PATIENCE` outlasts a job of
three minutes; a run that ended by itself asks its broker for two rounds more than it lasted, while the memory is fresh
and the deviation is of that size (a periodic job that runs longer). What moves take off or put on a broker is taken
off or put on its past as well, so that no round judges a load that is gone.

An *idle* broker is filled: at once when it has next to nothing but its base, after `PATIENCE` rounds when its bundles
bring it little of what they could. It counts as idle until it is close to the level: what a bundle costs is estimated
on the safe side, so that one round's moves seldom fill a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Bools, Snapshot

PERMILLE = 1000
AT_ONCE, SOON = 500, 400
HUGE = 1000  # a full broker at twice the level is relieved at once, whatever it was a minute ago
PATIENCE = 4
MILD, FAINT = 200, 100  # below them more rounds are asked for
MILD_ROUNDS, FAINT_ROUNDS = 6, 8
KEPT = 8  # rounds of deviations
IDLE, EMPTY = -600, -900  # of what bundles could bring a broker: so far below it is filled, later or at once
FILLED = 0.10  # of the level: a broker this close below it is not filled further
ENDED_FROM = 2  # a shorter run is noise, and so is one below FAINT
FORGET_ROUNDS, SAME_SIZE = 180, 1.3
STEPS = ((AT_ONCE, 1), (SOON, 2), (MILD, PATIENCE), (FAINT, MILD_ROUNDS), (-PERMILLE, FAINT_ROUNDS))
FULL_STEPS = ((AT_ONCE, 1), (FAINT, 2), (-PERMILLE, PATIENCE))
NOISE_SHARE = 0.1  # of a round's estimate in the remembered one
_SIGMA_OF_MEDIAN_STEP = 1.4826 / 2**0.5


@dataclass(slots=True)
class Past:
    """One broker's. `recent`: oldest first, without the current round."""

    recent: list[int] = field(default_factory=list)
    run: int = 0
    ended_run: int = 0  # the longest that ended by itself
    ended_peak: int = 0
    ended_ago: int = 0
    touched: bool = False  # a move changed the broker in its current run
    sudden: bool = False  # the current run began after a round within the tolerance
    filling: int = 0  # rounds for which it still counts as idle
    given: bool = False  # a move brought it something in the round before

    def to_json(self) -> list[Any]:
        """Compact: trailing zeros are left out."""
        row: list[Any] = [self.recent, self.run, self.ended_run, self.ended_peak, self.ended_ago, int(self.touched),
                          int(self.sudden), self.filling, int(self.given)]  # fmt: skip
        while row and not row[-1]:
            row.pop()
        return row

    @classmethod
    def from_json(cls, row: list[Any]) -> Past:
        """What `to_json` gave."""
        values = [*row, *[[], 0, 0, 0, 0, 0, 0, 0, 0][len(row) :]]
        recent, run, ended_run, ended_peak, ended_ago, touched, sudden, filling, given = values
        return cls(
            list(recent), run, ended_run, ended_peak, ended_ago, bool(touched), bool(sudden), filling, bool(given)
        )


@dataclass(slots=True)
class Hits:
    """Of one round: who may be relieved, who may be filled."""

    pasts: list[Past]  # [B]
    sources: Bools  # [B]
    idle: Bools  # [B]
    runs: Ints  # [B]
    needed: Ints  # [B] rounds that its deviation asks for; 0 where it is within the tolerance
    noise: int  # permille, standard deviation of a broker's deviation
    fillable: Floats  # [B] what part of the level its bundles could bring a broker


def count(
    snapshot: Snapshot,
    deviation: Floats,
    part: Bools,
    full: Bools,
    fillable: Floats,
    tolerance: float,
    memory: Mapping[str, Any],
) -> Hits:
    """This round's hits. `part`: [B] who is judged; the others' past stays as it is. `full`: [B] who is overloaded.
    `fillable`: [B] what part of the level its bundles could bring a broker, 1 without a base."""
    now = np.rint(deviation * PERMILLE).astype(np.int64)
    kept: Mapping[str, Any] = memory.get("brokers", {})
    pasts = [_past(kept.get(name), int(inc)) for name, inc in zip(snapshot.brokers, snapshot.incarnation, strict=True)]
    noise = _noise(pasts, now, part, int(memory.get("noise", 0)))
    limit = round(tolerance * PERMILLE)
    size = len(pasts)
    hits = Hits(pasts, np.zeros(size, bool), np.zeros(size, bool), np.zeros(size, np.int64), np.zeros(size, np.int64),
                noise, fillable)  # fmt: skip
    for at in np.flatnonzero(part).tolist():
        _judge(hits, at, int(now[at]), limit, bool(full[at]))
    return hits


def remember(
    snapshot: Snapshot, hits: Hits, now: Floats, after: Floats, part: Bools, tolerance: float
) -> dict[str, Any]:
    """The memory after the round; `now` and `after`: deviations before and after its moves."""
    limit = round(tolerance * PERMILLE)
    delta = np.rint((after - now) * PERMILLE).astype(np.int64).tolist()
    current = np.rint(now * PERMILLE).astype(np.int64).tolist()
    brokers = {}
    for at, name in enumerate(snapshot.brokers):
        past = hits.pasts[at]
        if part[at]:
            noted = [value + delta[at] for value in (*past.recent, current[at])]
            telling = noted[-1] > limit // 2 or noted[-1] <= IDLE * hits.fillable[at]
            past.recent = noted[-KEPT:] if telling else noted[-1:]
            past.touched = past.run > 0 and (past.touched or delta[at] != 0)
            past.given = delta[at] > 0
        row = past.to_json()
        if row:
            brokers[name] = [int(snapshot.incarnation[at]), *row]
    return {"noise": hits.noise, "brokers": brokers}


def _past(row: list[Any] | None, incarnation: int) -> Past:
    """A new incarnation starts without one."""
    return Past.from_json(row[1:]) if row is not None and row[0] == incarnation else Past()


def _noise(pasts: list[Past], now: Ints, part: Bools, before: int) -> int:
    """How far a broker's deviation strays from one round to the next, from the median of all steps."""
    steps = [abs(int(now[at]) - past.recent[-1]) for at, past in enumerate(pasts) if part[at] and past.recent]
    if not steps:
        return before
    seen = _SIGMA_OF_MEDIAN_STEP * float(np.median(steps))
    return round(seen if before == 0 else before + NOISE_SHARE * (seen - before))


def _judge(hits: Hits, at: int, now: int, limit: int, full: bool) -> None:
    past = hits.pasts[at]
    past.ended_ago += past.ended_run > 0
    if past.ended_ago > FORGET_ROUNDS:
        past.ended_run = past.ended_peak = past.ended_ago = 0
    leeway = min(hits.noise, limit // 2) if past.run else 0  # a run does not end by noise; its mean is judged below
    if now <= limit - leeway:
        _end_run(past)
    else:
        past.sudden = past.sudden if past.run else bool(past.recent) and not past.given
        past.run += 1
    hits.runs[at] = past.run
    deviations = [*past.recent, now]
    hits.idle[at] = _is_idle(past, deviations, float(hits.fillable[at]))
    if past.run:
        hits.needed[at] = needed = _rounds_needed(past, now, full)
        least = FAINT if full else SOON  # of two rounds
        hits.sources[at] = past.run >= needed and _holds(deviations, needed, least, limit, hits.noise)


def _is_idle(past: Past, deviations: list[int], fillable: float) -> bool:
    """Whether the broker is to be filled, or filled further."""
    lasts = len(deviations) >= PATIENCE and max(deviations[-PATIENCE:]) <= IDLE * fillable
    if lasts or deviations[-1] <= EMPTY * fillable:
        past.filling = KEPT
    else:
        past.filling = max(0, past.filling - 1) if deviations[-1] <= -FILLED * PERMILLE else 0
    return past.filling > 0


def _end_run(past: Past) -> None:
    """The broker is back within the tolerance. Without our doing, this was a spike to remember."""
    peak = max(past.recent[-past.run :], default=0)
    if past.run >= ENDED_FROM and peak >= FAINT and not past.touched:
        if past.run >= past.ended_run or peak > past.ended_peak:
            past.ended_run, past.ended_peak = max(past.run, past.ended_run), max(peak, past.ended_peak)
        past.ended_ago = 0
    past.run, past.touched, past.sudden = 0, False, False


def _rounds_needed(past: Past, now: int, full: bool) -> int:
    steps: tuple[tuple[int, int], ...] = FULL_STEPS if full else STEPS
    if past.sudden and not (full and now >= HUGE):  # it may end as it began
        steps = tuple((least, max(rounds, PATIENCE)) for least, rounds in steps)
    usual = next(rounds for least, rounds in steps if now >= least)
    if past.ended_run and now <= past.ended_peak * SAME_SIZE:
        return max(usual, past.ended_run + 2)
    return usual


def _holds(deviations: list[int], needed: int, least: int, limit: int, noise: int) -> bool:
    """Whether the rounds asked for show the deviation throughout, and their mean exceeds what noise could make."""
    rounds = deviations[-min(needed, KEPT) :]
    if needed == 1:
        return True
    if needed == 2:
        return min(rounds) >= least
    return bool(sum(rounds) / len(rounds) >= limit + noise / len(rounds) ** 0.5)
