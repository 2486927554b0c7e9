"""The view *Next round*: what the round that comes would do now, by the code of `ballast plan`. Nothing is executed."""

from __future__ import annotations

from typing import Any

from controller.policy.strategies import names
from controller.service.rounds.next_round import plan_next_round
from controller.ui.cluster import LiveCluster


def next_round(cluster: LiveCluster, strategy: str | None, now_ms: int) -> dict[str, Any]:
    """The document of `ballast plan --json`, and the strategies that one may ask for.

    Raises NoTables, NoLoads, and ConfigError for an unknown strategy.
    """
    state = cluster.state()
    planned = plan_next_round(cluster.settings, cluster.reader.root, now_ms, strategy, state)
    return {**planned.to_json(), "strategies": names()}
