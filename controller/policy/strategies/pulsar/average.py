"""Strategy `average`: Pulsar's AvgShedder with its own placement, which no knob replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.strategies.pulsar.modular_outcome import ModularOutcome, idle_outcome
from controller.policy.strategies.pulsar.modular_round import ModularRound
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.java_order import hash_map_order
from controller.pulsar.placement.strategies import AvgPlacement, Bundle
from controller.pulsar.shedding.average import HitCounts, shed_average


class Average:
    """See `controller/pulsar/shedding/average.py`."""

    name = "average"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `high_hits` and `low_hits` by broker id, and what all modular strategies keep.

        What was planned for a bundle is not kept: its key is the bundle's load data, which the next round changes.
        """
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        if (idle := idle_outcome(self.name, cluster, memory)) is not None:
            return idle
        hits = HitCounts(memory.get("high_hits", {}), memory.get("low_hits", {}))
        result = shed_average(cluster.load, hits, settings.pulsar, hash_map_order(cluster.load.brokers))
        placement = AvgPlacement(cluster.draw(self.name))

        def plan(row: int, source: int, bundle: Bundle) -> None:
            placement.plan(bundle, result.destination[source])

        shown = {b: max(result.hits.high.get(b, 0), result.hits.low.get(b, 0)) for b in cluster.load.brokers}
        kept = {"high_hits": dict(result.hits.high), "low_hits": dict(result.hits.low)}
        outcome = ModularOutcome(self.name, cluster, result.shedding, memory)
        return outcome.outcome(hits=shown, kept=kept, placement=placement, plan=plan)
