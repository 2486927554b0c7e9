"""Computes the figures of a finished replay from the owners of bundles over time. Definitions: `docs/backtests.md`.

The *load* of a broker in a step is its largest weighted utilisation of a known resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from controller.backtest.point.checks import Checks
from controller.backtest.point.grid import GridPoint
from controller.backtest.point.replay_world import ADDITION, Moved, ReplayWorld
from controller.backtest.point.result import PointResult, PointRun, Timeline, round_figure
from controller.backtest.recording.prepared import Prepared, Replay
from controller.backtest.recording.recording import Floats, Ints
from controller.policy.view.frame import NOBODY
from controller.sim.figures import OVERLOADED
from controller.sim.ownership.load_cluster import FAILOVER, SPLIT
from controller.sim.thrash import total_variation

END_PART = 10  # the last tenth of the steps counts as the end
LEAST = 1e-9  # loads below this count as none


def figures_of(world: ReplayWorld, checks: Checks, point: GridPoint, replay: Replay) -> PointRun:
    """The result and the timeline of a replay after its last step."""
    prepared = world.prepared
    loads = broker_loads(world)
    member = prepared.member & np.isfinite(loads)
    known = np.where(member, loads, np.nan)
    steps = len(prepared.at_ms)
    some = np.asarray(member.any(axis=1))
    ratio, cv = np.ones(steps), np.zeros(steps)
    loaded = some & (prepared.best > LEAST)  # without load every placement is the best
    # below 1 only if nobody serves a part of the load, or by rounding
    ratio[loaded] = np.maximum(np.nanmax(known[loaded], axis=1) / prepared.best[loaded], 1.0)
    mean = np.nanmean(known[some], axis=1)
    cv[some] = np.nanstd(known[some], axis=1) / np.maximum(mean, LEAST)
    causes = Counter(move.cause for move in world.moves)
    by_rounds = sum(causes.values()) - causes[FAILOVER] - causes[SPLIT]
    moves = np.bincount([min(move.step, steps - 1) for move in world.moves], minlength=steps) if world.moves else None
    result = PointResult(
        strategy=point.strategy,
        knobs=dict(point.knobs),
        rounds=len(prepared.round_step),
        brokers=int(prepared.member.any(axis=0).sum()),
        bundles=int(prepared.present.any(axis=0).sum()),
        max_best_mean=_digits(ratio.mean()),
        max_best_end=_digits(ratio[-max(1, steps // END_PART) :].mean()),
        max_best_worst=_digits(ratio.max()),
        cv_mean=_digits(cv.mean()),
        thrash_pct=_digits(thrash_pct(world)),
        moves_addition=causes[ADDITION],
        moves_removal=causes[FAILOVER],
        moves_balance=sum(causes.values()) - causes[ADDITION] - causes[FAILOVER],
        splits=world.splits,
        useless_moves=checks.useless_moves,
        useless_rate=_digits(checks.useless_moves / by_rounds if by_rounds else 0.0),
        overload_minutes=_digits(((known >= OVERLOADED) * _minutes(prepared.at_ms)[:, None]).sum()),
        unavailable_bundle_s=_digits(len(world.moves) * replay.gap_ms / 1000.0),
        n_checked=len(checks.errors),
        **_quantiles(checks),
    )
    timeline = Timeline(
        at_ms=tuple(prepared.at_ms.tolist()),
        max_best=tuple(map(_digits, ratio.tolist())),
        cv=tuple(map(_digits, cv.tolist())),
        moves=tuple(moves.tolist()) if moves is not None else (0,) * steps,
    )
    return PointRun(result, timeline)


def broker_loads(world: ReplayWorld) -> Floats:
    """[S x B] load of every broker; NaN if nothing of it is known."""
    prepared, bundles = world.prepared, world.bundles
    count, recorded = len(prepared.brokers), bundles.recorded
    result = np.full(prepared.member.shape, np.nan)
    ends = [span.first for span in world.spans[1:]] + [len(prepared.at_ms)]
    for span, end in zip(world.spans, ends, strict=True):
        steps = np.arange(end - span.first)[:, None]
        owner = np.where(
            span.owner == NOBODY, count, span.owner
        )  # an extra column takes the load of bundles without an owner
        halves = recorded + np.flatnonzero(owner[recorded:] != count)
        place = (steps * (count + 1) + owner[None, :recorded]).ravel()
        for c, weight in enumerate(prepared.weight.tolist()):
            cost = prepared.cost[c, span.first : end]
            carried = np.bincount(place, cost.ravel(), len(steps) * (count + 1)).reshape(len(steps), count + 1)
            for half in halves.tolist():
                carried[:, owner[half]] += cost[:, bundles.root[half]] * bundles.share[half]
            used = prepared.base[c, span.first : end] + carried[:, :count]
            load = weight * used / prepared.limit[c, span.first : end]
            result[span.first : end] = np.fmax(result[span.first : end], load)
    return result


def thrash_pct(world: ReplayWorld) -> float:
    """How much rounds moved load back and forth (`controller.sim.thrash`), in percent of the range of placed load.

    Only moves by rounds count, with every bundle carrying its mean load of the run.
    """
    prepared, bundles = world.prepared, world.bundles
    shifts = [move for move in world.moves if move.cause not in (FAILOVER, SPLIT) and move.step < len(prepared.at_ms)]
    if not shifts:
        return 0.0
    c = _tightest(prepared)
    able = _typical(np.where(prepared.member, prepared.limit[c], np.nan))
    mean = prepared.cost[c].mean(axis=0, dtype=np.float64)[bundles.root] * bundles.share
    series = total_variation([_steps_of(broker, shifts, mean) / able[broker] for broker in range(len(able))])
    low, high = np.inf, 0.0
    for span in world.spans:
        held = span.owner != NOBODY
        placed = np.bincount(span.owner[held], mean[: len(held)][held], len(able)) / able
        there = placed[prepared.member[span.first] & np.isfinite(able)]
        if len(there):
            low, high = min(low, float(there.min())), max(high, float(there.max()))
    return 100.0 * series / max(high - low, LEAST)


def _steps_of(broker: int, shifts: list[Moved], mean: Floats) -> Floats:
    """The broker's load as changed by moves alone: 0, then a value for each step with a move."""
    change: dict[int, float] = {}
    for move in shifts:
        if broker in (move.source, move.target):
            change[move.step] = change.get(move.step, 0.0) + (1 if move.target == broker else -1) * float(
                mean[move.row]
            )
    return np.round(np.cumsum([0.0, *(change[step] for step in sorted(change))]), 9)


def _tightest(prepared: Prepared) -> int:
    """The resource with the highest mean utilisation over the whole recording."""
    means = []
    for c in range(len(prepared.weight)):
        known = prepared.member & np.isfinite(prepared.base[c]) & np.isfinite(prepared.limit[c])
        used = float(prepared.base[c][known].sum()) + float(prepared.cost[c].sum(dtype=np.float64))
        means.append(prepared.weight[c] * used / float(prepared.limit[c][known].sum()) if known.any() else -1.0)
    return int(np.argmax(means))


def _typical(limit: Floats) -> Floats:
    """[B] the median over the steps; NaN for a broker without a known limit."""
    some = np.isfinite(limit).any(axis=0)
    result = np.full(limit.shape[1], np.nan)
    result[some] = np.nanmedian(limit[:, some], axis=0)
    return result


def _minutes(at_ms: Ints) -> Floats:
    """[S] the length of each step: the usual distance between steps, even before a gap in the recording."""
    usual = float(np.median(np.diff(at_ms))) if len(at_ms) > 1 else 0.0
    return np.full(len(at_ms), usual / 60_000.0)


def _quantiles(checks: Checks) -> Mapping[str, float | None]:
    if not checks.errors:
        return {"error_p50": None, "error_p90": None}
    half, most = np.quantile(checks.errors, [0.5, 0.9]).tolist()
    return {"error_p50": round_figure(half), "error_p90": round_figure(most)}


def _digits(value: float) -> float:
    """A figure rounded for the results; 0 if it is not finite."""
    return round_figure(value) or 0.0
