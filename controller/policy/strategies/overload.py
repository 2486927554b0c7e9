"""Strategy `overload`: Pulsar's OverloadShedder, placed by Pulsar's default placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.settings import PolicySettings
from controller.policy.pulsar.modular_round import ModularRound
from controller.policy.pulsar.overload import shed_overload
from controller.policy.snapshot import Snapshot
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.strategies.modular_outcome import ModularOutcome, idle_outcome


class Overload:
    """See `controller/policy/pulsar/overload.py`."""

    name = "overload"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: what every strategy of the modular manager keeps (`ModularRound.kept`)."""
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        if (idle := idle_outcome(self.name, cluster, memory)) is not None:
            return idle
        return ModularOutcome(self.name, cluster, shed_overload(cluster.load, settings.pulsar), memory).outcome()
