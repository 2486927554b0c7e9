"""When a round of `steady` acts: on what is above the tolerance by more than chance, and lasts.

What does not last is left out of brokers' scores already (`policy/usage/bursts`). Here remains how certain a deviation
is: the tolerance is widened by what the estimate may be wrong, and by how far the brokers' loads wander from round to
round, as what is balanced more finely than that is lost again before it pays. Both are bounded: nothing learned hides a
broker far above its level. In the first rounds nobody knows yet what lasts: a cluster in which no broker is overloaded
or far above the level may just be having a burst and is watched.

A broker *wants filling* when its bundles bring it next to nothing of what they could: at once, or, when they bring a
little, after `PATIENCE` rounds. It goes on wanting until it is close to the level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.policy.strategies.steady.model import Model
from controller.policy.usage.bursts import PATIENCE
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import PERMILLE
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Bools, Snapshot

FIRST_ROUNDS = 3
FAR_AT_FIRST = 450  # permille above the level: a cluster that begins like this is not just having a burst
BEGIN_ERRORS, END_ERRORS = 2.0, 1.5  # standard deviations of the estimate, besides the tolerance
WIDEST = 0.1  # of the level, that each of doubt and wandering widens the tolerance at most
LITTLE, NOTHING = -600, -900  # of what bundles could bring
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
    begin = model.levels + wide + np.minimum(model.doubt(BEGIN_ERRORS), WIDEST * model.norms)
    end = model.levels + wide + model.doubt(END_ERRORS)
    in_trouble = model.levels + np.where(model.short, wide, wide / 2)
    begin = np.where(model.full, np.minimum(begin, in_trouble), begin)
    end = np.minimum(end, begin)
    above = part & (model.score > begin)
    begun = bool(memory.get("begun")) or rounds > FIRST_ROUNDS
    begun = begun or bool((part & (model.full | (deviation > FAR_AT_FIRST))).any())
    sources = above if begun else np.zeros(len(part), bool)
    runs, idle, brokers = np.zeros(len(part), np.int64), np.zeros(len(part), bool), {}
    fillable = model.fillable()
    for at, name in enumerate(snapshot.brokers):
        run, low, filling = kept.get(name, (0, 0, 0))
        if part[at]:
            run = run + 1 if above[at] else 0
            low = low + 1 if deviation[at] <= LITTLE * fillable[at] else 0
            wants = low >= PATIENCE or deviation[at] <= NOTHING * fillable[at] or bool(filling)
            filling = int(wants and deviation[at] <= -FILLED)
        runs[at], idle[at] = run, bool(filling)
        brokers[name] = [int(snapshot.incarnation[at]), run, low, filling]
    return Timing(
        sources=sources,
        idle=idle & part,
        runs=runs,
        needed=np.where(above, np.where(sources, 1, FIRST_ROUNDS + 1), 0),
        begin=begin,
        end=end,
        memory={"brokers": brokers, "begun": begun},
    )


def _same_processes(snapshot: Snapshot, memory: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What is remembered of brokers whose process is still the same."""
    known: Mapping[str, Any] = memory.get("brokers", {})
    rows = ((name, known.get(name), int(inc)) for name, inc in zip(snapshot.brokers, snapshot.incarnation, strict=True))
    return {name: tuple(row[1:]) for name, row, inc in rows if row is not None and row[0] == inc}
