"""Strategy `threshold`: Pulsar's ThresholdShedder, placed by Pulsar's default placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.strategies.pulsar.modular_outcome import ModularOutcome, idle_outcome
from controller.policy.strategies.pulsar.modular_round import ModularRound
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.shedding.threshold import shed_threshold


class Threshold:
    """See `controller/pulsar/shedding/threshold.py`."""

    name = "threshold"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `history`, broker id -> historical usage as a fraction, and what all modular strategies keep.

        The history of a broker that is alive but cannot be judged stays as it is; of one that left it is dropped.
        """
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        if (idle := idle_outcome(self.name, cluster, memory)) is not None:
            return idle
        before: Mapping[str, float] = memory.get("history", {})
        history = np.array([before.get(broker, np.nan) for broker in cluster.load.brokers], np.float64)
        result = shed_threshold(cluster.load, history, settings.pulsar)
        kept = {
            broker: before[broker]
            for at, broker in enumerate(snapshot.brokers)
            if snapshot.alive[at] and broker in before
        }
        kept.update(zip(cluster.load.brokers, result.history.tolist(), strict=True))
        outcome = ModularOutcome(self.name, cluster, result.shedding, memory)
        return outcome.outcome(mean=result.mean, kept={"history": kept})
