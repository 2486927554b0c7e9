"""`ballast pulsar check`: every requirement with what was found, and its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from controller.brokers.pulsar.addresses import Members
from controller.cli.pulsar.check import ADVICE, OK, WRONG, _judge

GOOD = {"manager": "modular", "version": "4.0.8", "load_balancer": True, "shedding": False, "auto_split": False,
        "stats_period_ms": 5_000}  # fmt: skip


def judge(policies: Any = None, **changes: Any) -> dict[str, tuple[str, str]]:
    facts = {"broker:b:1": {**GOOD, **changes}}
    found = _judge(Members(("b:1",), {"b:1": "http://b"}), facts, {} if policies is None else policies)
    return {one.requirement: (one.state, one.remedy) for one in found}


def test_a_cluster_that_is_ready() -> None:
    assert {state for state, _ in judge().values()} == {OK}


@pytest.mark.parametrize(
    ("changes", "requirement", "remedy"),
    [
        ({"shedding": True}, "loadBalancerSheddingEnabled=false", "--config loadBalancerSheddingEnabled --value false"),
        ({"auto_split": True}, "loadBalancerAutoBundleSplitEnabled=false", "--value false"),
        ({"manager": "SimpleLoadManagerImpl"}, "load manager and version", "loadManagerClassName"),
        ({"version": "2.10.1"}, "load manager and version", "needed is 3.0 or newer"),
    ],
)
def test_what_is_not_met_has_a_remedy(changes: dict[str, Any], requirement: str, remedy: str) -> None:
    found = judge(**changes)
    assert found[requirement][0] == WRONG
    assert remedy in found[requirement][1]
    assert [state for state, _ in found.values()].count(WRONG) == 1


def test_a_load_balancer_that_is_off_does_nothing() -> None:
    assert WRONG not in {state for state, _ in judge(load_balancer=False, shedding=True, auto_split=True).values()}


def test_a_long_statistics_period_is_advice() -> None:
    assert judge(stats_period_ms=60_000)["statsUpdateFrequencyInSecs"][0] == ADVICE


def test_a_broker_that_tells_nothing_and_policies_that_cannot_be_read() -> None:
    found = list(_judge(Members(("b:1",), {}), {}, None))
    assert [one.state for one in found] == [WRONG, WRONG]
    strange = judge({"isolation:p": {"namespaces": "no list"}})
    assert strange["isolation policies can be read"][0] == WRONG
