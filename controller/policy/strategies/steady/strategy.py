"""`steady`: few moves, each worth it, on what lasts. The default strategy.

Source, bundle and target are chosen together, on all weighted resources, by capacity, against a model that every
chosen move changes. Beside this file: what brokers can carry (capacity), when to act (hits), what a move would bring
(model, pairs, swap), what it disrupts (disruption), in which order (planner), what it says of it all (evidence).
Users turn three knobs (`SteadySettings`); grace and the overload threshold are those of all strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import StrategyOutcome, Traits, score_rows
from controller.policy.strategies.steady import hits as counting
from controller.policy.strategies.steady.capacity import Capacity, learn
from controller.policy.strategies.steady.evidence import NAME, Advice
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.planner import Planner
from controller.policy.view.snapshot import Snapshot

MEMORY_VERSION = 2
SCALE = 1000  # of what is remembered as an integer
BEFORE_BASES = 1  # its speeds may be those of brokers that had a base and little traffic


class Steady:
    """See the module's text."""

    name = NAME
    rules = 5
    traits = Traits(knobs=("steady",))

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `v`, `noise`, `brokers` (id -> incarnation and past), `speeds`, `base`, `advised`; small integers."""
        memory = _usable_part(memory)
        capacity = learn(snapshot, _speeds(snapshot, memory), memory.get("base", 0) / SCALE)
        model = Model(snapshot, capacity)
        part = model.takes_part
        deviation = model.deviation()
        full = model.score >= settings.shed.overloaded_threshold
        hits = counting.count(snapshot, deviation, part, full, model.fillable(), settings.steady.tolerance, memory)
        advice = Advice(snapshot, settings.split, memory)
        planner = Planner(snapshot, capacity, model, hits, settings, advice)
        planner.plan()
        carried_out = snapshot.frame.mode == "live" and settings.shed.enabled
        after = model.deviation() if carried_out else deviation
        kept = counting.remember(snapshot, hits, deviation, after, part, settings.steady.tolerance)
        kept |= {"v": MEMORY_VERSION, "speeds": _speeds_to_memory(snapshot, capacity), "advised": advice.to_json()}
        kept["base"] = round(capacity.common_base * SCALE)
        level = np.rint(model.levels * SCORE_UNIT).astype(np.int64)
        log = planner.log
        sources = hits.sources.copy()
        sources[list(log.sources)] = True  # givers to idle brokers, too
        rows = score_rows(snapshot, level, hits.runs, sources, log.reasons)
        return StrategyOutcome(log.decisions(), rows, kept, log.considered(), planner.chosen.budget)


def _usable_part(memory: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of the memory that this version can use."""
    if memory.get("v") == BEFORE_BASES:
        return {name: value for name, value in memory.items() if name != "speeds"}
    return memory if memory.get("v") == MEMORY_VERSION else {}


def _speeds(snapshot: Snapshot, memory: Mapping[str, Any]) -> dict[int, float]:
    """Learned speeds by index, of brokers whose process is still the same."""
    known: Mapping[str, Any] = memory.get("speeds", {})
    return {
        at: known[name][1] / SCALE
        for at, name in enumerate(snapshot.brokers)
        if name in known and known[name][0] == int(snapshot.incarnation[at])
    }


def _speeds_to_memory(snapshot: Snapshot, capacity: Capacity) -> dict[str, list[int]]:
    """Only of brokers that differ from the median."""
    return {
        snapshot.brokers[at]: [int(snapshot.incarnation[at]), round(SCALE * float(capacity.speed[at]))]
        for at in np.flatnonzero(capacity.speed != 1.0).tolist()
    }
