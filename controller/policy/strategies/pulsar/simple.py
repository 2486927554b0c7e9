"""Strategy `simple`: the method of Pulsar 2.5's documentation (85 %, 5 % margin, highest traffic first, 30 minutes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.strategies.pulsar.modular_outcome import ModularOutcome, idle_outcome
from controller.policy.strategies.pulsar.modular_round import ModularRound
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.shedding.simple import shed_simple


class Simple:
    """See `controller/pulsar/shedding/simple.py`."""

    name = "simple"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: what every strategy of the modular manager keeps (`ModularRound.kept`)."""
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        if (idle := idle_outcome(self.name, cluster, memory)) is not None:
            return idle
        shedding = shed_simple(cluster.load, cluster.highest_usage, settings.pulsar)
        return ModularOutcome(self.name, cluster, shedding, memory).outcome()
