"""When a round of `steady` acts: on what is above the tolerance by more than chance, and lasts.

What does not last is left out of brokers' scores already (`policy/usage/bursts`). Here remains how certain a deviation
is: the tolerance is widened by what the estimate may be wrong, the more the more brokers there are, as one of many is
far off by chance; and by how far the brokers' loads wander from round to round, as what is balanced more finely than
that is lost again before it pays. Both are bounded: nothing learned hides a broker far above its level. In the first
rounds nobody knows yet what lasts: a cluster in which no broker is overloaded may just be having a burst, and is
watched, unless a broker is far above the level and the brokers altogether are uneven. Where CPU is nearly idle and does
not follow traffic, nobody knows how much of it a move would shift: a broker is relieved for its CPU only if its reading
is far above the level. A broker that something else seems to keep above the level is relieved once that has lasted, or
at once if it is overloaded; before, it gives a bundle or two, as what they take with them tells whether it is so
(`policy/usage/departed`). `filling` tells who wants filling.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.policy.strategies.steady.filling import WANTED, judge_filling
from controller.policy.strategies.steady.model import FAR, Model
from controller.policy.strategies.steady.usage import CPU
from controller.policy.usage.bursts import LONGEST
from controller.policy.usage.drivers import DRIVER_COLUMNS
from controller.policy.usage.seen import shares_of_traffic
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import PERMILLE
from controller.policy.view.frame import Ints
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
OCCUPIED_FOR = LONGEST + 1  # rounds, before what keeps a broker busy besides its bundles counts as there to stay
PROBED_AFTER = 4  # rounds of that it gives a bundle or two: most of what is over soon is over by then
PROBES = 2
WIDEST = 0.1  # of the level, that each of doubt and wandering widens the tolerance at most


@dataclass(frozen=True, eq=False)
class Timing:
    """Of one round; scores as fractions, deviations in permille of the level."""

    sources: Bools  # [B] who is to be relieved
    probed: Bools  # [B] of those, who gives PROBES bundles at most, to learn whether bundles are what keeps it busy
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
    wide = (tolerance + min(model.usage.wander, WIDEST)) * model.norms
    errors = _begin_errors(int(np.count_nonzero(part)))
    begin = model.levels + wide + np.minimum(model.doubt(errors), WIDEST * model.norms)
    end = model.levels + wide + model.doubt(END_ERRORS)
    in_trouble = model.levels + np.where(model.short, wide, wide / 2)
    begin = np.where(model.full, np.minimum(begin, in_trouble), begin)
    end = np.minimum(end, begin)
    above = model.able & (model.score > begin)
    above &= ~_find_idle(snapshot, model) | (model.without_cpu() > begin)
    begun = bool(memory.get("begun")) or model.usage.rounds > FIRST_ROUNDS
    begun = begun or bool((model.able & model.full).any())
    begun = begun or any(_is_uneven(deviation[pool.takes_part]) for pool in model.parts)
    before = _recall(snapshot, memory)
    runs = np.where(model.able, np.where(above, before[:, 0] + 1, 0), before[:, 0])
    needed = np.where(model.occupied & ~model.full, OCCUPIED_FOR, 1 if begun else FIRST_ROUNDS + 1)
    probed = above & model.blamed & ~model.full & ~model.usage.tested & (runs >= PROBED_AFTER) & (runs < needed)
    needed = np.where(probed, PROBED_AFTER, needed)
    sources = above & (runs >= needed) & begun
    filling = judge_filling(snapshot, model, deviation, before[:, 1:])
    rows = np.column_stack([snapshot.incarnation, runs, filling]).astype(np.int64).tolist()
    return Timing(
        sources=sources,
        probed=probed,
        idle=part & (filling[:, 1] == WANTED),
        runs=runs,
        needed=np.where(above, needed, 0),
        begin=begin,
        end=end,
        memory={"brokers": dict(zip(snapshot.brokers, rows, strict=True)), "begun": begun},
    )


def _begin_errors(brokers: int) -> float:
    """BEGIN_ERRORS for so many brokers, in a straight line from one to the next. In Python's own arithmetic: compilers
    may round `numpy.interp` otherwise on another CPU."""
    at = min(max(bisect_right(BROKERS, brokers), 1), len(BROKERS) - 1)
    (few, many), (fewer, more) = BROKERS[at - 1 : at + 1], BEGIN_ERRORS[at - 1 : at + 1]
    slope = (more - fewer) / (many - few)
    return slope * (min(max(brokers, few), many) - few) + fewer


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
    of_traffic = shares_of_traffic(traffic)
    of_limits = limit / limit.sum()
    traffic_above, used_above = of_traffic - of_limits, used / used.sum() - of_limits
    together = float((traffic_above * used_above).sum())
    apart = float((traffic_above**2).sum()) * float((used_above**2).sum())
    return together > 0 and together**2 > LEAST_EXPLAINED * apart


def _is_uneven(deviation: Ints) -> bool:
    """Whether brokers with these deviations [n] are further from balance than a burst of some bundles brings them."""
    far = bool((deviation > FAR_AT_FIRST).any())  # never without brokers
    return far and float((deviation**2).mean()) > UNEVEN_AT_FIRST**2


def _recall(snapshot: Snapshot, memory: Mapping[str, Any]) -> Ints:
    """[B x 4] what is remembered of each broker besides its incarnation; 0 of those whose process is another one."""
    known: Mapping[str, Any] = memory.get("brokers", {})
    result = np.zeros((len(snapshot.brokers), 4), np.int64)
    for at, (name, incarnation) in enumerate(zip(snapshot.brokers, snapshot.incarnation.tolist(), strict=True)):
        row = known.get(name)
        if row is not None and row[0] == incarnation:
            result[at] = row[1:]
    return result
