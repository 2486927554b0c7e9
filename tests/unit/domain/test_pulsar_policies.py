"""Rules of placement that a Pulsar cluster has hold as if they were configured here."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.errors import ConfigError
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.placement import (
    AntiAffinityGroup,
    FailureDomain,
    IsolationPolicy,
    PlacementSettings,
)
from controller.policy.placement.isolation import DEFAULT_DOMAIN, domain_of, matches_broker
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver
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


def test_domains_and_groups_as_pulsar_answers_them() -> None:
    facts: dict[str, Any] = {
        "failure_domain:rack-1": {"brokers": ["a:1", "b:1"], "enabled": True},
        "failure_domain:empty": {"brokers": [], "enabled": True},
        "failure_domain:rack-2": {"brokers": ["c:1"], "enabled": False},
        "anti_affinity:t/n": {"group": "Ledger"},
        "anti_affinity:t/m": {"group": "ledger"},
        "anti_affinity:t/o": {"group": "other"},
    }
    found = placement_of(facts, PlacementSettings())
    assert found.failure_domains == (FailureDomain("rack-1", ("a:1", "b:1")),), "neither empty nor unused ones"
    assert found.anti_affinity == (AntiAffinityGroup("ledger", ("t/m", "t/n")), AntiAffinityGroup("other", ("t/o",)))


def test_brokers_may_have_ipv6_addresses() -> None:
    facts: dict[str, Any] = {
        "failure_domain:rack-1": {"brokers": ["[::1]:8080", "[2001:db8::7]"], "enabled": True},
        "isolation:p": {**POLICY, "primary": [r"\[2001:db8::.*\]"]},
    }
    found = placement_of(facts, PlacementSettings())
    assert [domain_of(broker, found.failure_domains) for broker in ("[::1]:8080", "[::1]:8081", "[2001:db8::7]:1")] == [
        "rack-1", DEFAULT_DOMAIN, "rack-1",
    ]  # fmt: skip
    primary = found.isolation[0].primary
    assert matches_broker("[2001:db8::7]:8080", primary), "as Pulsar, which matches the host with its brackets"
    assert not matches_broker("[::1]:8080", primary)


@pytest.mark.parametrize("broker", ["::1:8080", "[::1", "[::1]8080", "[b]:8080", "http://[::1]:8080"])
def test_what_is_no_address_is_no_broker(broker: str) -> None:
    with pytest.raises(ConfigError, match="no broker"):
        placement_of({"failure_domain:rack": {"brokers": [broker], "enabled": True}}, PlacementSettings())


@pytest.mark.parametrize(
    ("kind", "key", "fact", "configured"),
    [
        ("isolation policies", "isolation:theirs", POLICY, OURS),
        (
            "failure domains", "failure_domain:theirs", {"brokers": ["a:1"], "enabled": True},
            PlacementSettings(failure_domains=(FailureDomain("ours", ("a:1",)),)),
        ),
        (
            "anti-affinity groups", "anti_affinity:t/n", {"group": "theirs"},
            PlacementSettings(anti_affinity=(AntiAffinityGroup("ours", ("t/n",)),)),
        ),
    ],
)  # fmt: skip
def test_both_sources_of_one_kind_are_an_error_that_names_both(
    kind: str, key: str, fact: Any, configured: PlacementSettings
) -> None:
    with pytest.raises(ConfigError, match=rf"placement\.\w+ is configured here, .* {kind} of its own \(theirs\)"):
        placement_of({key: fact}, configured)
    other = "anti_affinity:t/n" if kind != "anti-affinity groups" else "failure_domain:d"
    more = {"group": "g"} if kind != "anti-affinity groups" else {"brokers": ["x:1"], "enabled": True}
    assert placement_of({other: more}, configured) != configured, "each kind of rule has a source of its own"


def test_an_expression_that_only_java_understands_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no regular expression"):
        placement_of({"isolation:p": {**POLICY, "primary": ["(?<!"]}}, PlacementSettings())


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


def with_group(**domains: str) -> ObservedDriver:
    """t/n and t/m are in one group; t/n has two bundles at a:1, one each at b:1 and c:1."""
    driver = observed_driver()
    for namespace in ("t/n", "t/m"):
        driver.tell("a:1", "fact", key=f"anti_affinity:{namespace}", value={"group": "g"})
    for name in set(domains.values()):
        brokers = [f"{broker}:1" for broker, domain in domains.items() if domain == name]
        driver.tell("a:1", "fact", key=f"failure_domain:{name}", value={"brokers": brokers, "enabled": True})
    return driver


def test_no_command_moves_a_bundle_to_where_more_of_its_group_are() -> None:
    driver = with_group()
    driver.command("unload_bundle", bundle=str(BUNDLES[1]), to="c:1")  # b:1 is left without one, c:1 has two
    assert "c:1 has more bundles of t/n's anti-affinity group than other places have" in driver.rejection()
    driver.tell("a:1", "fact", key="anti_affinity:t/n", value=None)
    driver.tell("a:1", "fact", key="anti_affinity:t/m", value=None)
    driver.command("unload_bundle", bundle=str(BUNDLES[1]), to="c:1")
    assert str(BUNDLES[1]) in driver.state.observed.orders


def test_a_command_that_spreads_a_group_is_carried_out() -> None:
    driver = with_group()
    driver.join("d:1", nonce="agent", authority="metadata", runtime="pulsar", can_fence=False)
    driver.configure("d:1")
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="c:1")  # d:1 has none
    assert "anti-affinity" in driver.rejection()
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="d:1")
    assert driver.state.observed.orders[str(BUNDLES[0])].target == "d:1"
    driver.command("unload_bundle", bundle=str(BUNDLES[3]), to="d:1")  # the open order counts
    assert "anti-affinity" in driver.rejection()


def test_failure_domains_come_before_brokers() -> None:
    driver = with_group(a="rack-1", b="rack-1", c="rack-2")
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")  # two are left in rack-1, one is in rack-2
    assert "the failure domain of b:1 has more bundles" in driver.rejection()
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="c:1")
    assert str(BUNDLES[0]) in driver.state.observed.orders


def test_a_group_makes_rounds_before_it_void() -> None:
    driver = observed_driver()
    for key, value in (("anti_affinity:t/n", {"group": "g"}), ("failure_domain:d", {"brokers": [], "enabled": True})):
        (entry,) = driver.tell("a:1", "fact", key=key, value=value)
        assert driver.state.policy_seq == entry.seq


def test_a_drained_broker_is_emptied_whatever_the_group_says() -> None:
    driver = with_group()
    driver.command("drain", broker="b:1")
    assert str(BUNDLES[1]) in driver.state.observed.orders
