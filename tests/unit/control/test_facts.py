"""Facts of an observed cluster: which ones the journal takes, and whose count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.domain.events import MAX_CONTROL_BYTES
from controller.domain.facts import (
    ANSWER_ALLOWANCE_MS,
    MAX_FACT_BYTES,
    MAX_KEY_CHARS,
    STUCK_ALLOWANCE_MS,
    UNLOAD_TIMEOUT_MS,
    excluded_namespaces,
    find_flaw,
)
from tests.unit.control.observed_driver import BUNDLES, NAMESPACE, ObservedDriver, observed_driver


def policy(namespaces: int) -> dict[str, Any]:
    """An isolation policy that keeps the namespace, and that many others, on a:1."""
    others = [f"tenant-{at:05d}/namespace-with-a-name" for at in range(namespaces)]
    return {
        "namespaces": [NAMESPACE, *others], "primary": ["a"], "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }  # fmt: skip


@pytest.mark.parametrize("namespaces", [0, 2_000])
def test_a_policy_of_many_namespaces_holds(namespaces: int) -> None:
    driver = observed_driver()
    driver.tell("a:1", "fact", key="isolation:gold", value=policy(namespaces))
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    assert "isolation keeps t/n away from b:1" in driver.rejection()


def test_what_the_journal_takes_fits_into_a_record_of_an_agent() -> None:
    largest = {"namespaces": ["\u00e9" * ((MAX_FACT_BYTES - 100) // len(json.dumps("\u00e9")[1:-1]))]}
    assert find_flaw("isolation:p", largest) is None
    assert find_flaw("isolation:p", policy(10_000)) is None
    assert len(json.dumps(largest).encode()) + 1_000 < MAX_CONTROL_BYTES


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("isolation:p", {"namespaces": ["x" * MAX_FACT_BYTES]}, "at most 524288"),
        ("isolation:" + "p" * MAX_KEY_CHARS, {}, "at most 512 characters"),
        ("isolation:a\x1bb", {}, "printable"),
        ("isolation:p", json.loads("[" * 40 + "]" * 40), "types"),
        ("isolation:p", {"a": json.loads("[" * 40 + "]" * 40)}, "nested"),
        ("isolation:p", {"a": "\ud800"}, "surrogate"),
        ("leader", {"broker": 5}, "types"),
        (5, {}, "name"),
    ],
)
def test_why_the_journal_does_not_take_a_fact(key: Any, value: Any, why: str) -> None:
    assert why in str(find_flaw(key, value))


def migrated() -> ObservedDriver:
    """c:1 ran the modular manager and is gone; the others were restarted with the extensible one."""
    driver = observed_driver()
    driver.configure("c:1", excluded_namespaces=[NAMESPACE])
    driver.tell("c:1", "goodbye")
    driver.sessions.pop("c:1")
    for broker in ("a:1", "b:1"):
        driver.configure(broker, manager="extensible")
    return driver


def test_brokers_that_are_gone_do_not_make_a_cluster_modular() -> None:
    driver = migrated()
    assert "broker:c:1" in driver.state.observed.facts
    assert not driver.state.modular
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    longest_ms = UNLOAD_TIMEOUT_MS + ANSWER_ALLOWANCE_MS + STUCK_ALLOWANCE_MS
    assert driver.watch.order_deadlines == {str(BUNDLES[0]): driver.now_ms + longest_ms}
    (ended, *_) = driver.end_order(BUNDLES[0], "failed", sent=True)
    assert ended.data["range_blocked"] is False
    driver.configure("a:1", manager="modular")
    assert driver.state.modular, "one that lives does"


def test_brokers_that_are_gone_exclude_no_namespaces() -> None:
    state = migrated().state
    assert excluded_namespaces(state.observed.facts, ["a:1", "b:1", "c:1"]) == {NAMESPACE}
    assert excluded_namespaces(state.observed.facts, state.living) == frozenset()
