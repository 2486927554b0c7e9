"""Strategy `simple`: the method of Pulsar 2.5's documentation (85 %, 5 % margin, highest traffic first, 30 minutes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.settings import PolicySettings
from controller.policy.pulsar.modular_round import ModularRound
from controller.policy.pulsar.simple import shed_simple
from controller.policy.snapshot import Snapshot
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.strategies.modular_outcome import ModularOutcome, idle_outcome


class Simple:
    """See `controller/policy/pulsar/simple.py`."""

    name = "simple"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: what every strategy of the modular manager keeps (`ModularRound.kept`)."""
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        if (idle := idle_outcome(self.name, cluster, memory)) is not None:
            return idle
        shedding = shed_simple(cluster.load, cluster.highest_usage, settings.pulsar)
        return ModularOutcome(self.name, cluster, shedding, memory).outcome()
