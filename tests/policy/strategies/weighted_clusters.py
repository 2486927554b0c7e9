"""Clusters for `weighted`, and rounds that know latencies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.published.clusters import ClusterBuilder, cluster
from controller.domain.decision import RoundResult
from controller.policy.round import run_round


def weighted(**settings: Any) -> ClusterBuilder:
    return cluster(strategy="weighted", **settings)


def with_latencies(built: ClusterBuilder, **ms: dict[str, float]) -> RoundResult:
    """The second round, with latencies by name and broker."""
    for _ in range(2):
        inputs = built.inputs()
        columns = {name: np.array([by[b] for b in inputs.brokers["broker"]]) for name, by in ms.items()}
        result = run_round(replace(inputs, brokers={**inputs.brokers, **columns}))
        built.state.round_memory = dict(result.memory)
        built.later()
    return result
