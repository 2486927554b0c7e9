"""Who wants filling: a broker whose bundles bring it next to nothing of what they could, at once; or, when they bring a
little, or are hardly any and it is new, after `PATIENCE` rounds. It goes on wanting until it is close to the level.
What it got may turn out to be less than expected: until that is known well, it wants more once it is clearly short.

The last case is that of lightly used clusters. Deviations do not show it: they are measured against no less than
LEAST_LEVEL. A broker is new until it has carried half of its share of the traffic for `PROVEN` rounds, and again after
a restart or a drain. One that is not new may hold a few large bundles that pause.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from controller.policy.strategies.steady.model import LEAST_LEVEL, Model
from controller.policy.strategies.steady.usage import CPU
from controller.policy.usage.bursts import PATIENCE
from controller.policy.usage.drivers import DRIVER_COLUMNS
from controller.policy.usage.seen import shares_of_traffic
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Bools, Snapshot

LITTLE, NOTHING = -600, -900  # of what bundles could bring
FILLED = 120  # of the level: so close to it a broker is filled
SHORT = 180  # of the level: so far below it one that was thought to be filled is filled again
KNOWN = 0.03  # of the level, that its estimate may be wrong by: then it shows whether it is filled
WANTED, UNSURE = 1, 2
LEAST_FILLED = 100  # the same of the norm, in a lightly used cluster
HARDLY_ANY = 0.25  # of its share of the bundles
WORKING = 0.5  # of its share of the traffic
PROVEN = 3  # rounds of that: a minute of traffic is seen in two
LEAST_WORKING = 3  # brokers: fewer do not show what is usual
CLEARLY = 2.0  # standard deviations


def judge_filling(snapshot: Snapshot, model: Model, deviation: Ints, before: Ints) -> Ints:
    """[B x 3] of each broker: rounds that it has been low, whether it wants filling, rounds that it has worked. UNSURE:
    it did, and what it has is not known well yet.

    `deviation`: [B] in permille of the level. `before`: [B x 3] the result of the round before; 0 for new processes.
    """
    part, fillable, working = model.takes_part, model.fillable(), _find_working(snapshot, model)
    low, filling, worked = before.T
    held = model.usage.held
    emptied = ~snapshot.eligible & (held == 0)  # drained, or gone: one that is only silent still holds its bundles
    worked = np.minimum(np.where(emptied, 0, worked) + working, PROVEN)
    empty, enough = _judge_light(snapshot, model, held, working, worked < PROVEN)
    is_low = (deviation <= LITTLE * fillable) | empty
    low = np.where(part, np.where(is_low, low + 1, 0), low)
    slack = find_slack(model.levels, model.norms)
    again = (filling == UNSURE) & (deviation <= -SHORT * model.levels / model.norms)
    wants = (low >= PATIENCE) | (deviation <= NOTHING * fillable) | (filling == WANTED) | again
    wants &= (deviation <= -slack) & ~enough
    unsure = (filling > 0) & (model.doubt(1.0) > KNOWN * model.norms)
    filling = np.where(part, np.where(wants, WANTED, np.where(unsure, UNSURE, 0)), filling)
    return np.column_stack([low, filling, worked]).astype(np.int64)


def find_slack(level: Floats | float, norm: Floats | float) -> Floats:
    """How far below its level a broker is filled, in permille of the norm."""
    return np.maximum(FILLED * level / norm, LEAST_FILLED)


def _find_working(snapshot: Snapshot, model: Model) -> Bools:
    """[B] that carry at least half of their share of the traffic of their pool."""
    working = np.zeros(len(snapshot.brokers), bool)
    for pool in model.parts:
        part = np.flatnonzero(pool.takes_part)
        of_size = pool.size[part] / pool.size[part].sum()
        working[part] = shares_of_traffic(snapshot.totals[part][:, DRIVER_COLUMNS]) > WORKING * of_size
    return working


def _judge_light(snapshot: Snapshot, model: Model, held: Ints, working: Bools, new: Bools) -> tuple[Bools, Bools]:
    """[B] each, of the brokers of lightly used pools: which of the new ones are empty, and which have enough bundles.

    Empty ones hold hardly any bundles and, by their readings, use clearly less than those that work; where all are
    idle, what they use tells nothing. Enough is as many as others have of the same size: by known limits, since the
    model's speeds are guesses where bundles hardly use anything, and filling would confirm them.
    """
    empty, enough = np.zeros(len(held), bool), np.zeros(len(held), bool)
    for pool in model.parts:
        if pool.level >= LEAST_LEVEL:
            continue
        part = np.flatnonzero(pool.takes_part)
        size, limit, score = pool.size[part], np.maximum(snapshot.frame.limit[part, CPU], 0), snapshot.score[part]
        of_known = int(held[part][limit > 0].sum())
        enough[part] = (limit > 0) & (held[part] * int(limit.sum()) >= of_known * limit)
        few = held[part] * size.sum() < HARDLY_ANY * held[part].sum() * size
        few = (few | (held[part] <= 1)) & (new & ~working)[part]
        if few.any() and np.count_nonzero(working[part]) >= LEAST_WORKING:
            empty[part] = few & (score < _clearly_below(score[working[part]].tolist(), score[few].tolist()))
    return empty, enough


def _clearly_below(working: list[int], empty: list[int]) -> float:
    """The score below which a broker is clearly below those that work: their median less CLEARLY standard deviations.

    The variance is that of the brokers below the median, larger where there are few, and that of the empty ones.
    Brokers above the median do not count: another process may keep one busy. Scores are whole numbers, and Python's
    sums of them exact, however large.
    """
    count, ordered = len(working), sorted(working)
    usual, lower = ordered[count // 2], ordered[: count // 2]
    below = sum((usual - score) ** 2 for score in lower) / len(lower) * count / (count - 2)
    apart = sum((len(empty) * score - sum(empty)) ** 2 for score in empty) / len(empty) ** 3
    return usual - CLEARLY * sqrt(below + apart)
