"""What `ballast status` calls for attention for, by its document: a day of shadow is nothing to be paged for."""

from __future__ import annotations

from typing import Any

import pytest

from controller.config.load import load_settings
from controller.domain.state import LIVE, PAUSED, SHADOW
from controller.operations.bundles import LET_ONE_TAKE, nobody_takes_text
from controller.operations.overview import NOBODY_OBSERVED, find_late, find_problems, late_after_ms

OBSTACLE = "broker-1: loadBalancerSheddingEnabled is true"
QUIET: dict[str, Any] = {
    "controller": {"journal_says_running": True, "alive": True, "not_asked": None, "instance": "c-1",
                   "heard_of_another_journal": None},
    "brokers": {"registered": 3, "alive": 3, "silent": [], "unserved": 0, "drained": [], "leaving": [],
                "gone": []},
    "mode": LIVE, "orders": {"open": 0, "ended_last_hour": {}}, "no_orders_because": None,
    "plan": None, "guard_frozen": False, "alarms_last_hour": [], "quarantined_last_hour": {"total": 0, "rules": {}},
    "loads": {"newest_event_ms": 0, "lag_ms": 4_000}, "last_round": {"age_ms": 50_000},
}  # fmt: skip
LATE_MS = 200_000


@pytest.mark.parametrize(("mode", "found"), [(SHADOW, []), (LIVE, [f"no orders to brokers: {OBSTACLE}"])])
def test_what_keeps_orders_back_counts_where_they_are_wanted(mode: str, found: list[str]) -> None:
    assert find_problems({**QUIET, "mode": mode, "no_orders_because": OBSTACLE}) == found


@pytest.mark.parametrize(
    ("orders", "found"), [(QUIET["orders"], [NOBODY_OBSERVED]), (None, ["no broker is alive"])], ids=["Pulsar", "own"]
)
def test_where_nobody_is_seen_alive_the_agent_is_named(orders: Any, found: list[str]) -> None:
    nobody = {**QUIET["brokers"], "alive": 0, "gone": ["broker-1", "broker-2", "broker-3"]}
    assert find_problems({**QUIET, "brokers": nobody, "orders": orders}) == found


@pytest.mark.parametrize(
    ("drained", "leaving", "found"),
    [
        (["b1", "b2"], [], ""),
        (["b1", "b2", "b3"], [], "no broker may take bundles: all 3 alive are drained: "),
        (["b1", "b2"], ["b2", "b3"], "no broker may take bundles: all 3 alive are drained or leaving: "),
    ],
)
def test_brokers_that_may_take_nothing_serve_nobody_who_asks_for_more(
    drained: list[str], leaving: list[str], found: str
) -> None:
    brokers = {**QUIET["brokers"], "drained": drained, "leaving": leaving}
    assert find_problems({**QUIET, "brokers": brokers}) == ([f"{found}{LET_ONE_TAKE}"] if found else [])


def test_one_that_is_alone_and_drained_is_told_of_in_the_singular() -> None:
    assert nobody_takes_text(1, ["b1"], []) == "no broker may take bundles: the only one alive is drained"
    assert nobody_takes_text(0, [], []) == ""


@pytest.mark.parametrize(("total", "told"), [(99, False), (100, True)])
def test_a_flood_of_bad_records_is_more_than_somebodys_mistake(total: int, told: bool) -> None:
    found = find_problems({**QUIET, "quarantined_last_hour": {"total": total, "rules": {"not_json": total}}})
    assert any(f"{total} records broke a rule" in one for one in found) is told


OLD_LOADS = {"loads": {"newest_event_ms": 0, "lag_ms": LATE_MS + 1}}
OLD_ROUND = {"last_round": {"age_ms": LATE_MS + 1}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        (OLD_LOADS, "the newest load report is 3m 20s old"),
        ({**OLD_LOADS, **OLD_ROUND}, "the newest load report is 3m 20s old"),
        (OLD_ROUND, "the last round ran 3m 20s ago"),
        ({**OLD_ROUND, "mode": SHADOW}, "the last round ran 3m 20s ago"),
        ({**OLD_ROUND, "mode": PAUSED}, "the last round ran 3m 20s ago"),  # rounds run in every mode
        ({"last_round": None, "loads": {"newest_event_ms": None, "lag_ms": None}}, ""),  # a cluster that begins
        ({**OLD_LOADS, "controller": {**QUIET["controller"], "alive": False}}, ""),  # said already
        ({**OLD_LOADS, "controller": {**QUIET["controller"], "alive": None}}, ""),  # not known: nobody asked
        ({**OLD_LOADS, "brokers": {"registered": 3, "alive": 0, "gone": ["b1"]}}, ""),
    ],
)
def test_a_living_controller_that_balances_nothing_is_told_of(changes: dict[str, Any], told: str) -> None:
    found = find_late({**QUIET, **changes}, LATE_MS)
    assert [one for one in found if not (told and one.startswith(told))] == []
    assert bool(found) == bool(told)


@pytest.mark.parametrize(("profile", "late_ms"), [("local", 192_000), ("demo", 30_000)])
def test_three_missed_rounds_are_late_and_half_a_minute_never_is(profile: str, late_ms: int) -> None:
    assert late_after_ms(load_settings(None, profile, env={})) == late_ms
