"""`ballast pulsar check`: every requirement with what was found, and its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.facts import find_other_balancer
from controller.domain.settings.placement import FailureDomain, PlacementSettings
from controller.operations.pulsar_requirements import ADVICE, OK, WRONG, judge_requirements

GOOD = {"manager": "modular", "version": "4.0.8", "load_balancer": True, "shedding": False, "auto_split": False,
        "stats_period_ms": 5_000}  # fmt: skip


NO_RULES = PlacementSettings()


def judge(policies: Any = None, **changes: Any) -> dict[str, tuple[str, str]]:
    facts = {"broker:b:1": {**GOOD, **changes}, "leader": {"broker": "b:1"}}
    found = judge_requirements(("b:1",), facts, policies or {}, PlacementSettings())
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


def test_a_version_that_was_not_told_is_no_old_version() -> None:
    facts = {"broker:b:1": {name: value for name, value in GOOD.items() if name != "version"}}
    assert find_other_balancer(facts, ["b:1"]) == "b:1: its version is not known, needed is Pulsar 3.0 or newer"
    (found,) = (one for one in judge_requirements(("b:1",), facts, {}, NO_RULES) if "version" in one.requirement)
    assert (found.state, found.found) == (WRONG, "modular, unknown")
    assert found.remedy == "let it answer /admin/v2/brokers/version"


@pytest.mark.parametrize("told", [{}, {"leader": {"why": "it names http://x:1"}}])
def test_the_modular_manager_moves_nothing_without_a_leader(told: dict[str, Any]) -> None:
    found = {one.requirement: one for one in judge_requirements(("b:1",), {"broker:b:1": GOOD, **told}, {}, NO_RULES)}
    leader = found["leader known"]
    assert (leader.state, leader.found, leader.setting) == (WRONG, "unknown", "")
    assert ("it names http://x:1; " in leader.remedy) == bool(told)
    assert "3.0.0 to 3.0.2 and 3.1.0 to 3.1.2" in leader.remedy
    extensible = {"broker:b:1": {**GOOD, "manager": "extensible"}, **told}
    assert {one.state for one in judge_requirements(("b:1",), extensible, {}, NO_RULES)} == {OK}


def test_other_facts_of_the_journal_are_no_load_managers() -> None:
    facts: dict[str, Any] = {"broker:b:1": GOOD, "leader": {"broker": "b:1"}, "suspect:c:1": {"why": "silent"}}
    assert "one load manager" not in {one.requirement for one in judge_requirements(("b:1",), facts, {}, NO_RULES)}


def test_a_load_balancer_that_is_off_does_nothing() -> None:
    assert WRONG not in {state for state, _ in judge(load_balancer=False, shedding=True, auto_split=True).values()}


def test_a_long_statistics_period_is_advice() -> None:
    assert judge(stats_period_ms=60_000)["statsUpdateFrequencyInSecs"][0] == ADVICE


def test_a_broker_that_tells_nothing_and_policies_that_cannot_be_read() -> None:
    found = list(judge_requirements(("b:1",), {}, "403", PlacementSettings()))
    assert [one.state for one in found] == [WRONG, WRONG]
    assert found[-1].remedy == "403"
    strange = judge({"isolation:p": {"namespaces": "no list"}})
    assert strange["rules of placement can be applied"][0] == WRONG


def test_the_rules_that_were_read_are_listed() -> None:
    policies: dict[str, Any] = {
        "isolation:pay": {"namespaces": ["shop/pay-.*"], "primary": ["b"], "secondary": []},
        "failure_domain:rack-1": {"brokers": ["b:1"], "enabled": False},
        "anti_affinity:shop/ledger": {"group": "ledger"},
    }
    ours = PlacementSettings(failure_domains=(FailureDomain("ours", ("b:1",)),))
    found = {one.requirement: one.found for one in judge_requirements((), {}, policies, ours)}
    assert found == {
        "rules of placement can be applied": "yes",
        "isolation pay": "namespaces shop/pay-.*; primary b",
        "failure domain rack-1": "b:1; not used: failureDomainsEnabled=false",
        "anti affinity shop/ledger": "group ledger",
    }
    policies["failure_domain:rack-1"]["enabled"] = True
    found = {one.requirement: one.remedy for one in judge_requirements((), {}, policies, ours)}
    assert "remove one of the two" in found["rules of placement can be applied"]
