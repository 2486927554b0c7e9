"""What `ballast status` calls for attention for, by its document: a day of shadow is nothing to be paged for."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.state import LIVE, SHADOW
from controller.operations.overview import NOBODY_OBSERVED, find_problems

OBSTACLE = "broker-1: loadBalancerSheddingEnabled is true"
QUIET: dict[str, Any] = {
    "controller": {"journal_says_running": True, "alive": True, "not_asked": None, "instance": "c-1",
                   "heard_of_another_journal": None},
    "brokers": {"registered": 3, "alive": 3, "gone": []},
    "mode": LIVE, "orders": {"open": 0, "ended_last_hour": {}}, "no_orders_because": None,
    "plan": None, "guard_frozen": False, "alarms_last_hour": [],
}  # fmt: skip


@pytest.mark.parametrize(("mode", "found"), [(SHADOW, []), (LIVE, [f"no orders to brokers: {OBSTACLE}"])])
def test_what_keeps_orders_back_counts_where_they_are_wanted(mode: str, found: list[str]) -> None:
    assert find_problems({**QUIET, "mode": mode, "no_orders_because": OBSTACLE}) == found


@pytest.mark.parametrize(
    ("orders", "found"), [(QUIET["orders"], [NOBODY_OBSERVED]), (None, ["no broker is alive"])], ids=["Pulsar", "own"]
)
def test_where_nobody_is_seen_alive_the_agent_is_named(orders: Any, found: list[str]) -> None:
    nobody = {"registered": 3, "alive": 0, "gone": ["broker-1", "broker-2", "broker-3"]}
    assert find_problems({**QUIET, "brokers": nobody, "orders": orders}) == found
