"""Random clusters, loads and faults under random rules of placement: no round breaks one, and all ends well."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy, PlacementSettings
from controller.sim.scenario.scenario import Scenario
from controller.sim.simulation import simulate
from tests.component.sim.test_sim_random import OURS, PULSARS, scenarios
from tests.examples import examples


@st.composite
def ruled(draw: st.DrawFn, strategies: tuple[str, ...]) -> Scenario:
    """Tenant t0 has b1 and b2 for itself, with or without help; t1 and t2 are kept apart; brokers are on two racks."""
    scenario = draw(scenarios(strategies))
    vip = IsolationPolicy("vip", ("t0/.*",), ("b[12]",), draw(st.sampled_from([(), ("b3",)])), draw(st.integers(1, 2)))
    apart = AntiAffinityGroup("apart", ("t1/load", "t2/load"))
    racks = FailureDomain("odd", ("b1", "b3", "b5")), FailureDomain("even", ("b2", "b4", "b6"))
    rules = PlacementSettings(
        isolation=(vip,) if draw(st.booleans()) else (),
        anti_affinity=(apart,) if draw(st.booleans()) else (),
        failure_domains=racks if draw(st.booleans()) else (),
    )
    caps = replace(scenario.policy.caps, max_bundles=draw(st.sampled_from([None, 8, 30])))
    return replace(scenario, policy=replace(scenario.policy, placement=rules, caps=caps))


@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
@given(scenario=ruled((*OURS, *PULSARS)), seed=st.integers(0, 2**32))
def test_rules_and_invariants_hold_whatever_happens(scenario: Scenario, seed: int) -> None:
    assert simulate(scenario, seed).figures.repeats == 0
