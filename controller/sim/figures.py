"""The figures of a run: balance, calm, thrash, moves by cause, overload, unavailability.

They are computed from the true load of the simulation, not from what the balancer saw. The *load* of a broker is the
largest utilisation of its CPU and bandwidths by client demand (above 1: more than it can serve). *Members* are living
brokers that are not leaving. *Best achievable* is the larger of the highest mean utilisation of a resource and the
biggest bundle on the biggest broker; no placement of whole bundles does better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.domain.ids import Bundle
from controller.sim.load.cost_model import RESOURCE, Floats
from controller.sim.load.workloads import Ints, TopicMap
from controller.sim.load.world import NOBODY, Moment
from controller.sim.ownership.load_cluster import BALANCE, CAUSES, Move
from controller.sim.thrash import thrash_pct, total_variation

COUNTED = [RESOURCE[name] for name in ("cpu", "bandwidth_in", "bandwidth_out")]
CPU = RESOURCE["cpu"]
REPEAT_MS = 30 * 60_000
OVERLOADED = 0.85


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run.

    `max_mean` and `max_best`: the highest load of a broker divided by the mean and by the best achievable load, as mean
    of the whole run (`_mean`) and of its last part (`_end`), and in the worst tick (`_worst`, `_end_worst`).
    `min_mean`: the lowest load of a broker divided by the mean.
    """

    strategy: str
    rounds: int
    brokers: int  # members at the end
    bundles: int  # living at the end
    max_mean_mean: float
    max_mean_end: float
    max_mean_end_worst: float
    min_mean_end_worst: float
    max_mean_worst: float
    max_best_mean: float
    max_best_end: float
    max_best_worst: float
    moves: dict[str, int]  # by cause
    splits: int
    repeats: int  # moves by rounds of a bundle that a round had moved less than 30 minutes before
    steady_ms: int  # since the last move by a round, at the end
    thrash_pct: float  # of the brokers' load as changed by moves of rounds alone
    load_thrash_pct: float  # of the brokers' load, including changes by clients
    overload_minutes: float  # broker-minutes at a load of 85 % or more
    saturated_minutes: float  # broker-minutes at the limit
    unavailable_bundle_s: float
    longest_gap_ms: int
    reconnects: int
    reports_lost: int
    misplaced: int = 0  # bundles on brokers where isolation forbids them, at the end
    domain_gap: int = 0  # difference in bundles of an anti-affinity group between two domains, at the end


@dataclass(slots=True)
class Track:
    """The values of every tick."""

    tick_ms: int
    at_ms: list[int] = field(default_factory=list)
    load: list[Floats] = field(default_factory=list)  # [B] NaN for brokers that are no members
    best: list[float] = field(default_factory=list)
    owner: list[Ints] = field(default_factory=list)  # [T] broker of each topic
    work: Floats | None = None  # [T] summed
    cpu_able: Floats | None = None  # [B] newest
    moves: list[Move] = field(default_factory=list)
    shifts: list[tuple[int, int, int, Ints]] = field(default_factory=list)  # tick, source, target, topics: by rounds

    def note(self, at_ms: int, moment: Moment, members: np.ndarray, topic_bundle: Ints) -> None:
        """Add a tick. `members` [B] mask; `topic_bundle` [T] index into the moment's bundles."""
        load = (moment.demand / moment.limit)[:, COUNTED].max(axis=1)
        self.at_ms.append(at_ms)
        self.load.append(np.where(members, load, np.nan))
        self.best.append(best_achievable(moment, members))
        self.owner.append(moment.owner[topic_bundle])
        self.work = moment.topic_work if self.work is None else self.work + moment.topic_work
        self.cpu_able = moment.able[:, CPU]

    def note_moves(self, moves: Sequence[Move], ring: TopicMap, brokers: list[str]) -> None:
        """Add the moves of the last tick."""
        self.moves += moves
        for move in moves:
            bundle = ring.index.get(Bundle.parse(move.bundle))
            if move.cause == BALANCE and bundle is not None:
                ends = brokers.index(move.source), brokers.index(move.target)
                self.shifts.append((len(self.owner) - 1, *ends, np.flatnonzero(ring.bundle == bundle)))

    def loads(self) -> Floats:
        """[ticks x B], NaN for brokers that are no members."""
        result = np.full((len(self.load), len(self.load[-1])), np.nan)
        for at, row in enumerate(self.load):
            result[at, : len(row)] = row
        return result

    def max_mean(self) -> Floats:
        """[ticks]"""
        loads = self.loads()
        return np.asarray(np.nanmax(loads, axis=1) / np.maximum(np.nanmean(loads, axis=1), 1e-9))

    def min_mean(self) -> Floats:
        """[ticks]"""
        loads = self.loads()
        return np.asarray(np.nanmin(loads, axis=1) / np.maximum(np.nanmean(loads, axis=1), 1e-9))

    def max_best(self) -> Floats:
        """[ticks]"""
        return np.asarray(np.nanmax(self.loads(), axis=1) / np.maximum(np.array(self.best), 1e-9))

    def thrash_pct(self) -> float:
        """How much rounds moved load back and forth, in percent of the range of placed load.

        It is computed on the CPU utilisation of every broker as changed by moves of rounds alone, with every topic
        carrying its mean load of the run.
        """
        if self.work is None or self.cpu_able is None or not self.shifts:
            return 0.0
        mean, able = self.work / len(self.owner), self.cpu_able
        shifted = np.zeros((len(self.owner), len(able)))
        for tick, source, target, topics in self.shifts:
            work = float(mean[topics].sum())
            shifted[tick:, source] -= work / able[source]
            shifted[tick:, target] += work / able[target]
        return 100.0 * total_variation(list(np.round(shifted.T, 9))) / self._placement_range(mean, able)

    def _placement_range(self, mean: Floats, able: Floats) -> float:
        low, high = np.inf, 0.0
        for owner, load in zip(self.owner, self.load, strict=True):
            held = owner != NOBODY
            there = np.isfinite(load)
            placed = (np.bincount(owner[held], mean[held], len(able)) / able)[: len(load)][there]
            low, high = min(low, float(placed.min())), max(high, float(placed.max()))
        return max(high - low, 1e-9)


def best_achievable(moment: Moment, members: np.ndarray) -> float:
    """A lower bound of the highest load that any placement of whole bundles can reach."""
    able = moment.able[members][:, COUNTED]
    if not len(able):
        return 0.0
    idle = moment.idle[members][:, COUNTED]
    mean = (moment.cost[:, COUNTED].sum(axis=0) + idle.sum(axis=0)) / able.sum(axis=0)
    biggest = (moment.cost[:, COUNTED].max(axis=0, initial=0.0) + idle.min(axis=0)) / able.max(axis=0)
    return float(max(mean.max(), biggest.max()))


def count_repeats(moves: list[Move]) -> int:
    """Count moves by rounds of a bundle that a round had moved less than 30 minutes before."""
    last: dict[str, int] = {}
    count = 0
    for move in moves:
        if move.cause == BALANCE:
            count += move.decided_ms - last.get(move.bundle, -REPEAT_MS) < REPEAT_MS
            last[move.bundle] = move.decided_ms
    return count


def figures_of(
    track: Track, duration_ms: int, end_ms: int, *, strategy: str, rounds: int, brokers: int, bundles: int, splits: int,
    unavailable_bundle_s: float, longest_gap_ms: int, reconnects: int, reports_lost: int,
) -> Figures:  # fmt: skip
    """All figures of a run; its end is the last `end_ms`. Figures that the track does not have are passed in."""
    ticks = max(1, end_ms // track.tick_ms)
    by_mean, by_best, loads = track.max_mean(), track.max_best(), track.loads()
    minutes = track.tick_ms / 60_000.0
    counts = Counter(move.cause for move in track.moves)
    last_ms = max((move.at_ms for move in track.moves if move.cause == BALANCE), default=0)
    return Figures(
        strategy=strategy,
        rounds=rounds,
        brokers=brokers,
        bundles=bundles,
        max_mean_mean=float(by_mean.mean()),
        max_mean_end=float(by_mean[-ticks:].mean()),
        max_mean_end_worst=float(by_mean[-ticks:].max()),
        min_mean_end_worst=float(track.min_mean()[-ticks:].min()),
        max_mean_worst=float(by_mean.max()),
        max_best_mean=float(by_best.mean()),
        max_best_end=float(by_best[-ticks:].mean()),
        max_best_worst=float(by_best.max()),
        moves={cause: counts[cause] for cause in CAUSES},
        splits=splits,
        repeats=count_repeats(track.moves),
        steady_ms=duration_ms - last_ms,
        thrash_pct=track.thrash_pct(),
        load_thrash_pct=thrash_pct(list(loads.T)),
        overload_minutes=float((loads >= OVERLOADED).sum()) * minutes,
        saturated_minutes=float((loads >= 1.0).sum()) * minutes,
        unavailable_bundle_s=unavailable_bundle_s,
        longest_gap_ms=longest_gap_ms,
        reconnects=reconnects,
        reports_lost=reports_lost,
    )
