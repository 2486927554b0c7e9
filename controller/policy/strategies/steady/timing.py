"""When a round of `steady` acts: on what is above the tolerance by more than chance, and lasts.

What does not last is left out of brokers' scores already (`policy/usage/bursts`). Here remains how certain a deviation
is: the tolerance is widened by what the estimate may be wrong, the more the more brokers there are, as one of many is
far off by chance; and by how far the brokers' loads wander from round to round, as what is balanced more finely than
that is lost again before it pays. Both are bounded: nothing learned hides a broker far above its level. In the first
rounds nobody knows yet what lasts: a cluster in which no broker is overloaded may just be having a burst, and is
watched, unless a broker is far above the level and the brokers altogether are uneven. Where CPU is nearly idle and does
not follow traffic, nobody knows how much of it a move would shift: a broker is relieved for its CPU only if its reading
is far above the level.

A broker *wants filling* when its bundles bring it next to nothing of what they could: at once, or, when they bring a
little, or are hardly any and it has never carried its share of the traffic, after `PATIENCE` rounds. It goes on wanting
until it is close to the level.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from controller.policy.strategies.steady.model import FAR, LEAST_LEVEL, Model
from controller.policy.strategies.steady.usage import CPU
from controller.policy.usage.bursts import PATIENCE
from controller.policy.usage.drivers import DRIVER_COLUMNS, half_and_half
from controller.policy.usage.seen import weigh
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import PERMILLE
from controller.policy.view.frame import NOBODY, Ints
from controller.policy.view.snapshot import Bools, Snapshot

NEARLY_IDLE = 0.2  # CPU of all brokers of a pool together, as a share of their limits
LEAST_EXPLAINED = 0.5  # of the variance of CPU: CPU follows traffic if traffic explains more
LEAST_TELLING = 3  # brokers: any two lie on a line
FIRST_ROUNDS = 3
FAR_AT_FIRST = 450  # permille above the level
UNEVEN_AT_FIRST = 225  # permille: the root mean square of all deviations. Bursts of some bundles come to less
# Standard deviations of the estimate, besides the tolerance, from which a broker is relieved: in one round of eight
# chance alone brings one of so many brokers there.
BROKERS = (6, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)
BEGIN_ERRORS = (2.0, 2.15, 2.4, 2.65, 2.9, 3.1, 3.3, 3.5, 3.7, 3.85, 4.0)
END_ERRORS = 1.5  # and to which
WIDEST = 0.1  # of the level, that each of doubt and wandering widens the tolerance at most
LITTLE, NOTHING = -600, -900  # of what bundles could bring
HARDLY_ANY = 0.25  # of its share of the bundles
WORKING = 0.5  # of its share of the traffic
CLEARLY = 2.0  # standard deviations
FILLED = 100  # so close to the level it is filled


@dataclass(frozen=True, eq=False)
class Timing:
    """Of one round; scores as fractions, deviations in permille of the level."""

    sources: Bools  # [B] who is to be relieved
    idle: Bools  # [B] who wants filling
    runs: Ints  # [B] rounds above the tolerance, this one included
    needed: Ints  # [B] rounds that takes; 0 within the tolerance
    begin: Floats  # [B] the score from which a broker is relieved
    end: Floats  # [B] the score at which it has given enough
    memory: Mapping[str, Any]


def judge(snapshot: Snapshot, model: Model, tolerance: float, memory: Mapping[str, Any]) -> Timing:
    """Who is to be relieved or filled now. `memory`: what the round before returned."""
    part = model.takes_part
    deviation = np.rint(model.deviation() * PERMILLE).astype(np.int64)
    kept = _same_processes(snapshot, memory)
    rounds = model.usage.rounds
    wide = (tolerance + min(model.usage.wander, WIDEST)) * model.norms
    errors = _begin_errors(int(np.count_nonzero(part)))
    begin = model.levels + wide + np.minimum(model.doubt(errors), WIDEST * model.norms)
    end = model.levels + wide + model.doubt(END_ERRORS)
    in_trouble = model.levels + np.where(model.short, wide, wide / 2)
    begin = np.where(model.full, np.minimum(begin, in_trouble), begin)
    end = np.minimum(end, begin)
    above = part & (model.score > begin)
    above &= ~_find_idle(snapshot, model) | (model.without_cpu() > begin)
    begun = bool(memory.get("begun")) or rounds > FIRST_ROUNDS
    begun = begun or bool((part & model.full).any())
    begun = begun or any(_is_uneven(deviation[pool.takes_part]) for pool in model.parts)
    sources = above if begun else np.zeros(len(part), bool)
    runs, idle, brokers = np.zeros(len(part), np.int64), np.zeros(len(part), bool), {}
    fillable, working = model.fillable(), _find_working(snapshot, model)
    empty = _find_empty(snapshot, model, working)
    for at, name in enumerate(snapshot.brokers):
        run, low, filling, worked = kept.get(name, (0, 0, 0, 0))
        worked = int(bool(worked and snapshot.eligible[at]) or working[at])
        if part[at]:
            run = run + 1 if above[at] else 0
            low = low + 1 if deviation[at] <= LITTLE * fillable[at] or (empty[at] and not worked) else 0
            wants = low >= PATIENCE or deviation[at] <= NOTHING * fillable[at] or bool(filling)
            filling = int(wants and deviation[at] <= -FILLED)
        runs[at], idle[at] = run, bool(filling)
        brokers[name] = [int(snapshot.incarnation[at]), run, low, filling, worked]
    return Timing(
        sources=sources,
        idle=idle & part,
        runs=runs,
        needed=np.where(above, np.where(sources, 1, FIRST_ROUNDS + 1), 0),
        begin=begin,
        end=end,
        memory={"brokers": brokers, "begun": begun},
    )


def _begin_errors(brokers: int) -> float:
    """BEGIN_ERRORS for so many brokers, in a straight line from one to the next. In Python's own arithmetic: compilers
    may round `numpy.interp` otherwise on another CPU."""
    at = min(max(bisect_right(BROKERS, brokers), 1), len(BROKERS) - 1)
    (few, many), (fewer, more) = BROKERS[at - 1 : at + 1], BEGIN_ERRORS[at - 1 : at + 1]
    slope = (more - fewer) / (many - few)
    return slope * (min(max(brokers, few), many) - few) + fewer


def _find_working(snapshot: Snapshot, model: Model) -> Bools:
    """[B] that carry at least half of their share of the traffic of their pool."""
    working = np.zeros(len(snapshot.brokers), bool)
    for pool in model.parts:
        part = np.flatnonzero(pool.takes_part)
        of_size = pool.size[part] / pool.size[part].sum()
        working[part] = _shares(snapshot.totals[part][:, DRIVER_COLUMNS]) > WORKING * of_size
    return working


def _find_empty(snapshot: Snapshot, model: Model, working: Bools) -> Bools:
    """[B] in lightly used pools, who holds hardly any bundles and, by the readings, uses clearly less than brokers with
    traffic. Deviations do not show it there: they are measured against no less than LEAST_LEVEL.

    Where all are idle, what they use tells nothing. One that has worked before may hold a few large bundles that pause.
    """
    empty = np.zeros(len(snapshot.brokers), bool)
    for pool in model.parts:
        if pool.level >= LEAST_LEVEL or np.count_nonzero(working & pool.takes_part) < LEAST_TELLING:
            continue
        part = np.flatnonzero(pool.takes_part)
        held = np.bincount(model.owner - NOBODY, minlength=len(empty) + 1)[1:][part]
        few = held * pool.size[part].sum() < HARDLY_ANY * held.sum() * pool.size[part]
        if few.any():
            score = snapshot.score[part]
            empty[part] = few & (score < _clearly_below(score[working[part]].tolist(), score[few].tolist()))
    return empty


def _clearly_below(working: list[int], empty: list[int]) -> float:
    """The score from which a broker no longer counts as clearly below those that work: their median less CLEARLY
    standard deviations, of those below it (who is above it says nothing; few say less) and of the empty ones.

    Scores are whole numbers, and Python's sums of them exact, however large.
    """
    count, ordered = len(working), sorted(working)
    usual, lower = ordered[count // 2], ordered[: count // 2]
    below = sum((usual - score) ** 2 for score in lower) / len(lower) * count / (count - 2)
    apart = sum((len(empty) * score - sum(empty)) ** 2 for score in empty) / len(empty) ** 3
    return usual - CLEARLY * sqrt(below + apart)


def _find_idle(snapshot: Snapshot, model: Model) -> Bools:
    """[B] whose CPU says nothing of their bundles: the CPU of their pool is nearly idle and does not follow traffic,
    and their own reading is not far above the level."""
    read = np.nan_to_num(snapshot.utilisation[:, CPU])
    idle = np.zeros(len(read), bool)
    for pool in model.parts:
        known = pool.takes_part & np.isfinite(snapshot.utilisation[:, CPU])
        used, limit = snapshot.usage[known, CPU], snapshot.limit[known, CPU]
        if used.sum() < NEARLY_IDLE * limit.sum() and not _follows_traffic(used, limit, snapshot.totals[known]):
            idle |= pool.takes_part
    return np.asarray(idle & (read * snapshot.weights[CPU] <= model.levels + FAR * model.norms))


def _follows_traffic(used: Floats, limit: Floats, totals: Floats) -> bool:
    """Whether CPU `used` [b] follows the traffic, half by messages and half by bytes, of `totals` [b x F]. True if too
    few brokers have traffic to tell."""
    carries = totals[:, DRIVER_COLUMNS].sum(axis=1) > 0  # one without traffic has nothing but its base
    used, limit, traffic = used[carries], limit[carries], totals[carries][:, DRIVER_COLUMNS]
    if len(used) < LEAST_TELLING or not used.sum() > 0:
        return True
    of_traffic = _shares(traffic)
    of_limits = limit / limit.sum()
    traffic_above, used_above = of_traffic - of_limits, used / used.sum() - of_limits
    together = float((traffic_above * used_above).sum())
    apart = float((traffic_above**2).sum()) * float((used_above**2).sum())
    return together > 0 and together**2 > LEAST_EXPLAINED * apart


def _shares(traffic: Floats) -> Floats:
    """[b] shares of the traffic [b x D], half by messages and half by bytes; all 0 if there is none."""
    sums = traffic.sum(axis=0)
    if not sums.any():
        return np.zeros(len(traffic))
    return weigh(traffic, half_and_half(sums) / np.where(sums > 0, sums, 1.0))


def _is_uneven(deviation: Ints) -> bool:
    """Whether brokers with these deviations [n] are further from balance than a burst of some bundles brings them."""
    far = bool((deviation > FAR_AT_FIRST).any())  # never without brokers
    return far and float((deviation**2).mean()) > UNEVEN_AT_FIRST**2


def _same_processes(snapshot: Snapshot, memory: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What is remembered of brokers whose process is still the same."""
    known: Mapping[str, Any] = memory.get("brokers", {})
    rows = ((name, known.get(name), int(inc)) for name, inc in zip(snapshot.brokers, snapshot.incarnation, strict=True))
    return {name: tuple(row[1:]) for name, row, inc in rows if row is not None and row[0] == inc}
