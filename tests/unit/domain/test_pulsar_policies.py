"""Isolation policies that a Pulsar cluster has hold as if they were configured here."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.errors import ConfigError
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.placement import IsolationPolicy, PlacementSettings
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import with_settings

POLICY: dict[str, Any] = {
    "namespaces": ["t/n"], "primary": ["a|b"], "secondary": [],
    "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}},
}  # fmt: skip
OURS = PlacementSettings(isolation=(IsolationPolicy("mine", ("t/.*",), ("x",)),))


def test_a_policy_as_pulsar_answers_it() -> None:
    (policy,) = placement_of({"isolation:two": POLICY}, PlacementSettings()).isolation
    assert policy == IsolationPolicy("two", ("t/n",), ("a|b",), (), 1)


def test_without_policies_the_configured_ones_hold() -> None:
    assert placement_of({"leader": {"broker": "a:1"}}, OURS) is OURS


@pytest.mark.parametrize(
    ("fact", "configured", "said"),
    [
        (POLICY, OURS, "remove one of the two"),
        ({**POLICY, "primary": "a"}, PlacementSettings(), "primary is 'a', no list"),
        ({**POLICY, "auto_failover_policy": {"parameters": {"min_limit": "x"}}}, PlacementSettings(), "no number"),
    ],
)
def test_what_cannot_be_applied_is_an_error(fact: Any, configured: PlacementSettings, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        placement_of({"isolation:p": fact}, configured)


def test_no_order_goes_where_a_policy_of_the_cluster_forbids() -> None:
    driver = observed_driver()
    driver.tell("a:1", "fact", key="isolation:two", value=POLICY)
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="c:1")
    assert "isolation keeps t/n away from c:1" in driver.rejection()
    driver.tell("a:1", "fact", key="isolation:two", value=None)
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="c:1")
    assert str(BUNDLES[0]) in driver.state.observed.orders


def test_a_policy_makes_rounds_before_it_void_and_two_sources_stop_orders() -> None:
    driver = observed_driver(with_settings(placement=OURS))
    (entry,) = driver.tell("a:1", "fact", key="isolation:two", value=POLICY)
    assert driver.state.policy_seq == entry.seq
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    assert "remove one of the two" in driver.rejection()
