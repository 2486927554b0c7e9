"""`weighted`: stability before balance. A broker sheds when it is demonstrably over one of its limits, never because
another has less; the least valuable bundles go, as few as bring it back, each to a broker that stays within its own.

The method of the walkthrough on how Pulsar reacts to load: limits as knobs (`WeightedSettings`), a figure a provider
(`providers.py`), the value of a bundle (`bundle_value.py`), the choice of a target (`target_choice.py`). Moves, grace
and the rounds that a broker must be over a limit are those of all strategies (`ShedSettings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.settings.policy import PolicySettings
from controller.domain.state import LIVE
from controller.policy.strategies import hit_counts
from controller.policy.strategies.base import StrategyOutcome, score_rows
from controller.policy.strategies.weighted.figures import Figures
from controller.policy.strategies.weighted.planner import Planner
from controller.policy.strategies.weighted.record import NAME
from controller.policy.strategies.weighted.registry import providers_of
from controller.policy.view.snapshot import Snapshot


class Weighted:
    """See the module's text."""

    name = NAME
    rules = 2

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `hits`, broker id -> [incarnation, rounds running]. Raises ConfigError for an unusable provider."""
        knobs = settings.weighted
        figures = Figures(snapshot, providers_of(knobs.load_awareness_providers), knobs)
        hits = hit_counts.count(snapshot, figures.anyhow_over(), memory)
        planner = Planner(snapshot, figures, hits, settings)
        mean = planner.model.mean()
        planner.plan()
        record = planner.record
        rows = score_rows(snapshot, mean, hits, planner.sources, record.reasons)
        if snapshot.frame.mode == LIVE and settings.shed.enabled:
            # within its limits by what it gave away: averages of before must not make it give more
            relieved = [at for at in record.acted if not figures.anyhow_over()[at]]
            hits[relieved] = 0
        considered = np.append(record.visited, False)[snapshot.owner] | planner.targets.witnesses
        return StrategyOutcome(
            (*record.moves, *record.skips()),
            rows,
            {"hits": hit_counts.remembered(snapshot, hits)},
            considered,
            reads_latencies=True,
        )
