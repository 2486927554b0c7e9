"""Strategies `overload`, `threshold`, `uniform`, `average` and `simple`: the shedders of Pulsar's modular manager.

Each asks its algorithm in `controller/pulsar/shedding/` what to shed in the round's `ModularRound`; Pulsar's default
placement, or the one that a knob names, says where that goes. Only `average` brings a placement of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import FROM_PULSAR, StrategyOutcome
from controller.policy.strategies.pulsar.modular_outcome import ModularOutcome, idle_outcome
from controller.policy.strategies.pulsar.modular_round import ModularRound
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.java_order import hash_map_order
from controller.pulsar.load.arrays import Shedding
from controller.pulsar.placement.strategies import AvgPlacement, BundleToPlace
from controller.pulsar.shedding.average import HitCounts, shed_average
from controller.pulsar.shedding.overload import shed_overload
from controller.pulsar.shedding.simple import shed_simple
from controller.pulsar.shedding.threshold import shed_threshold
from controller.pulsar.shedding.uniform import shed_uniform


class ModularStrategy(ABC):
    """A strategy of the modular manager. Memory: what `ModularRound.kept` returns, and what its shedder keeps."""

    name: str
    rules = 1
    traits = FROM_PULSAR

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Decide one round as the leader of Pulsar's modular manager would."""
        cluster = ModularRound(snapshot, memory, settings.pulsar)
        idle = idle_outcome(self.name, cluster, memory)
        return self._shed(cluster, memory) if idle is None else idle

    @abstractmethod
    def _shed(self, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome:
        """The outcome of a round in which Pulsar asks the shedder."""

    def _placed(self, cluster: ModularRound, shedding: Shedding, memory: Mapping[str, Any]) -> ModularOutcome:
        """Turns what was shed into an outcome."""
        return ModularOutcome(self.name, cluster, shedding, memory)


class Overload(ModularStrategy):
    """Pulsar's OverloadShedder."""

    name = "overload"

    def _shed(self, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome:
        return self._placed(cluster, shed_overload(cluster.load, cluster.knobs), memory).outcome()


class Threshold(ModularStrategy):
    """Pulsar's ThresholdShedder. Memory also has `history`: broker id -> historical usage as a fraction.

    The history of a broker that is alive but cannot be judged stays as it is; that of a broker that left is dropped.
    """

    name = "threshold"

    def _shed(self, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome:
        snapshot = cluster.snapshot
        before: Mapping[str, float] = memory.get("history", {})
        history = np.array([before.get(broker, np.nan) for broker in cluster.load.brokers], np.float64)
        result = shed_threshold(cluster.load, history, cluster.knobs)
        kept = {
            broker: before[broker]
            for at, broker in enumerate(snapshot.brokers)
            if snapshot.alive[at] and broker in before
        }
        kept.update(zip(cluster.load.brokers, result.history.tolist(), strict=True))
        return self._placed(cluster, result.shedding, memory).outcome(mean=result.mean, kept={"history": kept})


class Uniform(ModularStrategy):
    """Pulsar's UniformLoadShedder."""

    name = "uniform"

    def _shed(self, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome:
        return self._placed(cluster, shed_uniform(cluster.load, cluster.knobs), memory).outcome()


class Average(ModularStrategy):
    """Pulsar's AvgShedder with its own placement, which no knob replaces.

    Memory also has `high_hits` and `low_hits` by broker id. What was planned for a bundle is not kept: its key is the
    bundle's load data, which the next round changes.
    """

    name = "average"

    def _shed(self, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome:
        before = HitCounts(memory.get("high_hits", {}), memory.get("low_hits", {}))
        result = shed_average(cluster.load, before, cluster.knobs, hash_map_order(cluster.load.brokers))
        placement = AvgPlacement(cluster.draw(self.name))

        def plan(row: int, source: int, bundle: BundleToPlace) -> None:
            placement.plan(bundle, result.destination[source])

        high, low = result.hits.high, result.hits.low
        hits = {broker: max(high.get(broker, 0), low.get(broker, 0)) for broker in cluster.load.brokers}
        return self._placed(cluster, result.shedding, memory).outcome(
            hits=hits, kept={"high_hits": dict(high), "low_hits": dict(low)}, placement=placement, on_shed=plan
        )


class Simple(ModularStrategy):
    """What Pulsar 2.5's documentation describes: above 85 %, plus 5 %, highest traffic first, 30 minutes of grace."""

    name = "simple"

    def _shed(self, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome:
        return self._placed(cluster, shed_simple(cluster.load, cluster.highest_usage, cluster.knobs), memory).outcome()
