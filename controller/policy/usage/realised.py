"""What moves took off their sources and brought to their targets, against what they were predicted to.

Usage in three rounds up to the decision is compared with three rounds after it, each without what the bundles there
were expected to cost at that round's traffic; all costs are those of the deciding round. What is left of the difference
is what the prediction was wrong by. Moves of one round at the same broker are judged together; bundles that came or
went in other rounds count at their estimated cost, and their errors widen the interval. CPU only.

A stored frame names only the bundles that its round considered. What is not named in all of the rounds is the rest of
its broker, and so is what a bundle carries beyond ten times its traffic of the deciding round, as its cost there says
nothing about so much. The rest's traffic costs what the named bundles leave of the broker's usage, and at most three
times what all traffic costs there on average: otherwise a tiny rest would have an absurd price. Where the rest changes
by more than all that the broker carried, nobody can tell what the moves did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.policy.usage.judged import (
    FULL_END,
    NOT_YET,
    OTHER_TRAFFIC,
    RESTARTED,
    ROUNDS,
    UNREADABLE,
    Judged,
    Move,
)
from controller.policy.usage.model import FACTOR_SPREAD, NOISE
from controller.policy.usage.seen import FULL
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import PERMILLE
from controller.policy.view.frame import NOBODY, Frame, Ints

Z90 = 1.645  # standard deviations on either side that hold 90 % of a normal distribution
CALIBRATED = 0.95  # chosen on the field, where 91 % of 2,112 judged ends are inside with it
MOST_GROWTH = 10.0  # of a bundle's traffic, up to which its cost grows with it
PRIOR_FROM = 0.75  # of the error that the costs of new bundles have: with more, a prediction is the prior
DEAREST_REST = 3.0  # times what the broker's traffic costs on average
_CPU = RESOURCES.index("cpu")
_TRAFFIC = [BUNDLE_FIELDS.index("throughput_in"), BUNDLE_FIELDS.index("throughput_out")]


def judge(frames: Sequence[Frame], moves: Sequence[Move], window_ms: int = 0) -> list[Judged]:
    """Judge both ends of each move; rounds without estimates give nothing. In the order of rounds and brokers.

    `frames`: of consecutive rounds. `window_ms`: readings within that time after the decision are passed over, as they
    are averages over a window that began before the move was done.
    """
    result: list[Judged] = []
    for number in sorted({move.round for move in moves}):
        if frames[number].estimates is not None:
            result += _judge_round(frames, [move for move in moves if move.round == number], window_ms)
    return result


def _judge_round(frames: Sequence[Frame], moves: Sequence[Move], window_ms: int) -> list[Judged]:
    number = moves[0].round
    now = frames[number]
    before = frames[max(0, number - ROUNDS + 1) : number + 1]
    after = [frame for frame in frames[number + 1 :] if frame.at_ms > now.at_ms + window_ms][:ROUNDS]
    row = {name: at for at, name in enumerate(now.brokers)}
    column = {name: at for at, name in enumerate(now.bundles)}
    ends = [(row[end], column[move.bundle], sign) for move in moves if move.bundle in column
            for end, sign in ((move.source, -1.0), (move.target, 1.0)) if end is not None and end in row]  # fmt: skip
    windows = _look(now, before, after, ends)
    result = []
    for broker in sorted({end for end, _, _ in ends}):
        moved = np.zeros(len(now.bundles))
        for end, bundle, sign in ends:
            moved[bundle] += sign * (end == broker)
        result.append(_judge_end(windows, number, now, broker, moved))
    return result


@dataclass(frozen=True, eq=False)
class _Windows:
    """K rounds around a decision, seen with its brokers B and bundles N. `weight`: [K] makes after minus before."""

    usage: Floats  # [K x B] share of the limit, NaN unknown
    same: NDArray[np.bool_]  # [K x B] the process that was there at the decision
    owner: Ints  # [K x N] or NOBODY, as of bundles that belong to the rest
    growth: Floats  # [K x N] traffic as a multiple of the deciding round's, at most MOST_GROWTH
    rest: Floats  # [K x B] traffic of the rest
    traffic: Floats  # [B] all of it, in the deciding round
    weight: Floats
    missing: int  # rounds to go


def _judge_end(windows: _Windows, number: int, now: Frame, broker: int, moved: Floats) -> Judged:
    """`moved`: [N] -1 off the broker, 1 onto it."""
    estimates = now.estimates
    assert estimates is not None
    limit = float(max(1, now.limit[broker, _CPU]))
    scale = float(estimates.broker("speed_permille")[broker]) / PERMILLE / limit
    cost, error = estimates.bundle("cpu_cost") * scale, estimates.bundle("cpu_error") * scale
    load = (windows.owner == broker) * windows.growth
    own = load[_deciding(windows)]
    work = float((estimates.broker("cpu_used") - estimates.broker("cpu_base"))[broker]) / limit
    of_rest = windows.rest[:, broker] * _price_of_rest(windows, broker, work, float((own * cost).sum()))  # [K]
    weight, usage = windows.weight, windows.usage[:, broker]
    change = (weight[:, None] * load).sum(axis=0) if not windows.missing else moved
    change_of_rest = float((weight * of_rest).sum()) if not windows.missing else 0.0
    variance = (
        float(((change * error) ** 2).sum())
        + (FACTOR_SPREAD * change_of_rest) ** 2
        + NOISE**2 * float(((weight[:, None] * load * cost) ** 2).sum() + ((weight * of_rest) ** 2).sum())
        + NOISE**2 * float(np.nansum((weight * usage) ** 2))
    )
    predicted = float((moved * cost).sum())
    judged = Judged(
        number, now.brokers[broker], int((moved != 0).sum()), predicted, Z90 * CALIBRATED * sqrt(variance), None,
        by_prior=_is_prior(cost[moved != 0], error[moved != 0]),
    )  # fmt: skip
    why = _why_not(windows, broker)
    if why:
        return replace(judged, why_not=why, missing=windows.missing if why == NOT_YET else 0)
    # What the estimates of the deciding round leave unexplained, after it minus before, is what they were wrong by
    unexplained = usage - (load * cost).sum(axis=1) - of_rest
    return replace(judged, realised=predicted + float((weight * unexplained).sum()))


def _is_prior(cost: Floats, error: Floats) -> bool:
    """Whether the costs of some bundles [k] are known hardly better together than those of new ones."""
    return bool((error**2).sum() >= (PRIOR_FROM * FACTOR_SPREAD) ** 2 * (cost**2).sum())


def _price_of_rest(windows: _Windows, broker: int, work: float, named: float) -> float:
    """What a byte/s of the rest costs, as a share of the limit. `work`: of all traffic, `named`: of named bundles."""
    left = max(0.0, work - named) / max(1.0, float(windows.rest[_deciding(windows), broker]))
    return min(left, DEAREST_REST * max(0.0, work) / max(1.0, float(windows.traffic[broker])))


def _why_not(windows: _Windows, broker: int) -> str:
    """Why the end cannot be judged; "" where it can."""
    usage = windows.usage[:, broker]
    if not windows.same[:, broker].all():
        return RESTARTED
    if np.isnan(usage).any():
        return UNREADABLE
    if (usage >= FULL).any():
        return FULL_END
    if windows.missing:
        return NOT_YET
    came = abs(float((windows.weight * windows.rest[:, broker]).sum()))
    return OTHER_TRAFFIC if came > windows.traffic[broker] else ""


def _deciding(windows: _Windows) -> int:
    """The row of the deciding round: the last one before."""
    return int((windows.weight < 0).sum()) - 1


def _look(
    now: Frame, before: Sequence[Frame], after: Sequence[Frame], ends: Sequence[tuple[int, int, float]]
) -> _Windows:
    """`ends`: broker, bundle and sign of each; a move's bundle is where it was before and where it went after, also in
    rounds that do not name it."""
    seen = [*before, *after]
    usage = np.full((len(seen), len(now.brokers)), np.nan)
    same = np.zeros(usage.shape, bool)
    totals = np.zeros(usage.shape)
    owner = np.full((len(seen), len(now.bundles)), NOBODY)
    growth, named = np.ones(owner.shape), np.zeros(owner.shape, bool)
    usual = _traffic(now)
    for broker, bundle, sign in ends:
        side = slice(None, len(before)) if sign < 0 else slice(len(before), None)
        owner[side, bundle], named[:, bundle] = broker, True
    for at, frame in enumerate(seen):
        mine, theirs = _shared(now.brokers, frame.brokers)
        used, limit = frame.usage[theirs, _CPU], frame.limit[theirs, _CPU]
        usage[at, mine] = np.where((used >= 0) & (limit > 0), used / np.maximum(limit, 1), np.nan)
        same[at, mine] = frame.broker("incarnation")[theirs] == now.broker("incarnation")[mine]
        totals[at, mine] = frame.totals[theirs][:, _TRAFFIC].sum(axis=1)
        place = np.full(len(frame.brokers) + 1, NOBODY)  # the last: of NOBODY
        place[theirs] = mine
        kept, there = _shared(now.bundles, frame.bundles)
        owner[at, kept], named[at, kept] = place[frame.bundle("owner")[there]], True
        times = np.minimum(_traffic(frame)[there] / np.maximum(usual[kept], 1), MOST_GROWTH)
        growth[at, kept] = np.where(usual[kept] > 0, times, 1.0)
    owner[:, ~named.all(axis=0)] = NOBODY
    rest = np.column_stack(
        [totals[:, b] - ((owner == b) * growth * usual).sum(axis=1) for b in range(len(now.brokers))]
    )
    sides = [np.full(len(side), sign / max(1, len(side))) for side, sign in ((before, -1.0), (after, 1.0))]
    deciding = len(before) - 1
    traffic = np.maximum(totals[deciding], [usual[owner[deciding] == b].sum() for b in range(len(now.brokers))])
    weight = np.concatenate(sides)
    return _Windows(usage, same, owner, growth, np.maximum(rest, 0.0), traffic, weight, ROUNDS - len(after))


def _traffic(frame: Frame) -> Floats:
    """[N] bytes/s in and out."""
    rows = frame.row_fields[:, _TRAFFIC].sum(axis=1)
    return np.bincount(frame.row("bundle"), rows, len(frame.bundles)).astype(np.float64)


def _shared(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[Ints, Ints]:
    """Where the names that both have are in each."""
    _, here, there = np.intersect1d(np.array(mine), np.array(theirs), assume_unique=True, return_indices=True)
    return here, there
