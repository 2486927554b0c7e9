"""Strategy `uniform`: Pulsar's UniformLoadShedder, placed by Pulsar's default placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.strategies.pulsar.modular_outcome import ModularOutcome, idle_outcome
from controller.policy.strategies.pulsar.modular_round import ModularRound
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.shedding.uniform import shed_uniform


class Uniform:
    """See `controller/pulsar/shedding/uniform.py`."""

    name = "uniform"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: what every strategy of the modular manager keeps (`ModularRound.kept`)."""
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        if (idle := idle_outcome(self.name, cluster, memory)) is not None:
            return idle
        return ModularOutcome(self.name, cluster, shed_uniform(cluster.load, settings.pulsar), memory).outcome()
