"""`steady`: few moves, each worth it, on what lasts. The default strategy.

Source, bundle and target are chosen together, on all weighted resources, by capacity, against a model that every
chosen move changes. Beside this file: what brokers use (usage), when to act (timing, filling), what a move would bring
(model, pairs, swap), what it disrupts (disruption), in which order (planner), what it says of it all (evidence). Users
turn three knobs (`SteadySettings`); grace and the overload threshold are those of all strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import StrategyOutcome, Traits, score_rows
from controller.policy.strategies.steady.evidence import NAME, Advice
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.planner import Planner
from controller.policy.strategies.steady.timing import judge
from controller.policy.strategies.steady.usage import Usage
from controller.policy.view.snapshot import Snapshot

MEMORY_VERSION = 5


class Steady:
    """See the module's text."""

    name = NAME
    rules = 31
    traits = Traits(knobs=("steady",), estimates=True, early=True)

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `v`, `brokers` (id -> incarnation, how long it has been above or below, and has worked),
        `advised`; integers."""
        memory = memory if memory.get("v") == MEMORY_VERSION else {}
        model = Model(snapshot, Usage.of(snapshot), settings.shed.overloaded_threshold)
        timing = judge(snapshot, model, settings.steady.tolerance, memory)
        advice = Advice(snapshot, settings.split, memory)
        planner = Planner(snapshot, model, timing, settings, advice)
        planner.plan()
        kept = {"v": MEMORY_VERSION, **timing.memory, "advised": advice.to_json()}
        level = np.rint(model.levels * SCORE_UNIT).astype(np.int64)
        log = planner.log
        sources = timing.sources.copy()
        sources[list(log.sources)] = True  # givers to idle brokers, too
        rows = score_rows(snapshot, level, timing.runs, sources, log.reasons)
        return StrategyOutcome(log.decisions(), rows, kept, log.considered(), planner.chosen.budget)
