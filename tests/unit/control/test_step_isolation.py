"""Rules of placement where the step itself assigns: orphans, lookups, bundles of a broker that is emptied."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.decision import EXECUTED, Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy, PlacementSettings
from controller.policy.placement.assignment import Assigner
from controller.policy.placement.assignment_rules import AssignmentRules
from controller.pulsar.placement import filters
from tests.examples import examples
from tests.unit.control.step_driver import StepDriver, with_settings

ALPHA = IsolationPolicy("alpha", ("alpha/.*",), ("p[0-9]",), ("s[0-9]",))


def driver_with(*brokers: str, max_bundles: int | None = None, **placement: Any) -> StepDriver:
    driver = StepDriver(with_settings(placement=PlacementSettings(**placement), max_bundles=max_bundles))
    for broker in brokers:
        driver.join(broker)
    return driver


def serve(driver: StepDriver, namespace: str, bundles: int = 1) -> list[str | None]:
    """Create the namespace, look all up, let the grantees serve; returns who they are, in ring order."""
    driver.command("create_namespace", namespace=namespace, bundles=bundles)
    for bundle in driver.state.namespaces[namespace]:
        driver.lookup(bundle)
        grantee = driver.of(bundle).to
        if grantee is not None:
            driver.say(grantee, "serving", bundle)
    return holders(driver, namespace)


def holders(driver: StepDriver, namespace: str) -> list[str | None]:
    records = [driver.of(bundle) for bundle in driver.state.namespaces[namespace]]
    return [(party.broker if (party := r.to or r.by) is not None else None) for r in records]


def alarms(driver: StepDriver) -> list[tuple[str | None, dict[str, Any]]]:
    return [(e.reason, dict(e.data)) for e in driver.journal if e.kind is Kind.ALARM]


class TestIsolation:
    def test_primaries_serve_their_tenant_and_nobody_else(self) -> None:
        driver = driver_with("p1:1", "p2:1", "s1:1", "x1:1", isolation=(ALPHA,))
        assert set(serve(driver, "alpha/a", 8)) == {"p1:1", "p2:1"}
        assert set(serve(driver, "beta/a", 8)) == {"s1:1", "x1:1"}

    def test_a_dead_primary_s_orphans_go_to_the_other_then_to_a_secondary(self) -> None:
        driver = driver_with("p1:1", "p2:1", "s1:1", "x1:1", isolation=(ALPHA,))
        serve(driver, "alpha/a", 4)
        driver.say(driver.sessions["p1:1"], "goodbye")
        assert set(holders(driver, "alpha/a")) == {"p2:1"}
        for bundle in driver.state.namespaces["alpha/a"]:
            driver.say(driver.sessions["p2:1"], "serving", bundle)
        driver.say(driver.sessions["p2:1"], "goodbye")
        assert set(holders(driver, "alpha/a")) == {"s1:1"}

    def test_without_an_allowed_broker_it_stays_unassigned_and_says_so_once(self) -> None:
        driver = driver_with("p1:1", "x1:1", isolation=(ALPHA,))
        serve(driver, "alpha/a", 4)
        driver.say(driver.sessions["p1:1"], "goodbye")
        driver.wait(3_000)
        assert set(holders(driver, "alpha/a")) == {None}
        assert alarms(driver) == [("310_isolation", {"namespace": "alpha/a", "policy": "alpha"})]
        driver.join("p2:1")
        driver.run()
        assert set(holders(driver, "alpha/a")) == {"p2:1"}
        assert not driver.watch.alarmed

    def test_a_shared_namespace_without_a_shared_broker_waits_as_well(self) -> None:
        driver = driver_with("p1:1", isolation=(ALPHA,))
        assert serve(driver, "beta/a") == [None]
        assert alarms(driver) == [("310_isolation", {"namespace": "beta/a", "policy": ""})]
        driver.join("x1:1")
        driver.run()
        assert holders(driver, "beta/a") == ["x1:1"]

    def test_a_pin_or_an_avoidance_does_not_lead_out_of_it(self) -> None:
        driver = driver_with("p1:1", "p2:1", "x1:1", isolation=(ALPHA,))
        driver.command("create_namespace", namespace="alpha/a", bundles=1)
        (bundle,) = driver.state.namespaces["alpha/a"]
        driver.command("override", override="pin", bundle=str(bundle), broker="x1:1")
        driver.lookup(bundle)
        assert holders(driver, "alpha/a") == ["p1:1"]
        driver = driver_with("p1:1", "x1:1", isolation=(ALPHA,))
        driver.command("create_namespace", namespace="alpha/a", bundles=1)
        (bundle,) = driver.state.namespaces["alpha/a"]
        driver.command("override", override="avoid", bundle=str(bundle), broker="p1:1")
        driver.lookup(bundle)
        assert holders(driver, "alpha/a") == ["p1:1"], "being served beats a wish; isolation beats both"

    def test_a_drained_primary_is_emptied_to_its_like(self) -> None:
        driver = driver_with("p1:1", "p2:1", "x1:1", isolation=(ALPHA,))
        serve(driver, "alpha/a", 4)
        driver.command("drain", broker="p1:1")
        assert set(holders(driver, "alpha/a")) == {"p2:1"}

    def test_a_drained_primary_without_its_like_keeps_what_it_has(self) -> None:
        driver = driver_with("p1:1", "x1:1", isolation=(ALPHA,))
        serve(driver, "alpha/a", 2)
        driver.command("drain", broker="p1:1")
        driver.wait(2_000)
        assert set(holders(driver, "alpha/a")) == {"p1:1"}
        assert [reason for reason, _ in alarms(driver)] == ["310_isolation"]

    def test_a_round_s_move_to_a_secondary_that_is_needed_no_more_is_refused(self) -> None:
        driver = driver_with("s1:1", "s2:1", isolation=(ALPHA,))
        serve(driver, "alpha/a", 1)
        (bundle,) = driver.state.namespaces["alpha/a"]
        kinds = DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN
        for at_ms, expected in ((1, EXECUTED), (2, Reason.ISOLATION.value)):
            holder = driver.of(bundle).by
            assert holder is not None
            other = "s2:1" if holder.broker == "s1:1" else "s1:1"
            if at_ms == 2:
                driver.join("p1:1")
            move = Decision(f"d{at_ms}", *kinds, str(bundle), holder.broker, other, driver.of(bundle).epoch)
            driver.round(RoundResult(f"r{at_ms}", at_ms, driver.state.seq, "steady", (move,), (), {}, "h"))
            assert [e.outcomes for e in driver.evidence] == [{f"d{at_ms}": expected}]
            if at_ms == 1:
                driver.say(driver.sessions[other], "rejected", bundle, reason="busy")


class TestAntiAffinity:
    GROUP = (AntiAffinityGroup("g", ("t/a", "t/b")),)
    DOMAINS = (FailureDomain("r1", ("a:1", "b:1", "c:1")), FailureDomain("r2", ("d:1",)))

    def test_the_group_is_spread_over_brokers(self) -> None:
        driver = driver_with("a:1", "b:1", "c:1", anti_affinity=self.GROUP)
        assert serve(driver, "t/a", 2) == ["a:1", "b:1"]
        assert serve(driver, "t/b", 1) == ["c:1"], "a namespace alone would begin at a:1"

    def test_and_over_failure_domains_first(self) -> None:
        driver = driver_with("a:1", "b:1", "c:1", "d:1", anti_affinity=self.GROUP, failure_domains=self.DOMAINS)
        assert serve(driver, "t/a", 3) == ["a:1", "d:1", "b:1"]
        assert serve(driver, "t/b", 3) == ["d:1", "c:1", "d:1"]

    def test_a_bundle_that_leaves_does_not_count_where_it_was(self) -> None:
        """Both domains hold two; one of r1's leaves its broker: within r1, or r2 would have three and r1 one."""
        driver = driver_with("a:1", "b:1", "c:1", "d:1", anti_affinity=self.GROUP, failure_domains=self.DOMAINS)
        assert serve(driver, "t/a", 4) == ["a:1", "d:1", "b:1", "d:1"]
        driver.command("drain", broker="b:1")
        assert holders(driver, "t/a") == ["a:1", "d:1", "c:1", "d:1"]


class TestCap:
    def test_a_broker_at_the_cap_gets_nothing_while_another_is_below_it(self) -> None:
        driver = driver_with("a:1", "b:1", max_bundles=3)
        serve(driver, "t/a", 2)
        for bundle in driver.state.namespaces["t/a"]:
            driver.own(driver.sessions["a:1"], bundle)
        assert serve(driver, "t/b", 2) == ["b:1", "b:1"] or Counter(serve(driver, "t/c", 1)) == {"b:1": 1}
        held = driver.state.holdings
        assert max(held.total("a:1"), held.total("b:1")) <= 3

    def test_when_all_are_at_the_cap_being_served_matters_more(self) -> None:
        driver = driver_with("a:1", "b:1", max_bundles=1)
        assert Counter(serve(driver, "t/a", 4)) == {"a:1": 2, "b:1": 2}


class TestVersions:
    def test_only_brokers_of_the_newest_version_are_granted_anything(self) -> None:
        driver = StepDriver(with_settings(placement=PlacementSettings(prefer_later_versions=True)))
        for broker, version in (("a:1", "4.0.7"), ("b:1", "4.0.8"), ("c:1", "4.0.8-rc.1")):
            driver.join(broker, version=version)
        assert set(serve(driver, "t/a", 3)) == {"b:1"}
        driver.join("d:1")
        assert set(serve(driver, "t/b", 4)) == {"a:1", "b:1", "c:1", "d:1"}, "one that tells none switches it off"


# ------------------------------------------------------- any changes, against the filters one after the other

NAMES = [f"{kind}{number}:1" for kind in "psx" for number in range(1, 4)]
SPACES = ("alpha/a", "alpha/b", "t/a", "t/b", "t/c")
BUNDLES = [bundle for space in SPACES for bundle in initial_bundles(space, 4)]


def naively(
    index: Holdings, scores: dict[str, float], rules: PlacementSettings, cap: int | None, namespace: str,
    barred: frozenset[str], leaving: str | None,
) -> str | None:  # fmt: skip
    pulsars = [filters.IsolationPolicy(p.primary, p.secondary, p.min_available) for p in rules.isolation]
    mine = pulsars[0] if pulsars and namespace.startswith("alpha/") else None
    found = [b for b in filters.by_isolation(sorted(scores), mine, pulsars) if b not in barred]
    if cap is not None:
        found = [b for b in found if index.total(b) < cap] or found
    for group in rules.anti_affinity:
        if namespace in group.namespaces:
            counts = Counter({b: sum(index.spread(n).get(b, 0) for n in group.namespaces) for b in NAMES})
            counts.subtract([leaving] if leaving else [])
            homes = {d.name: d.brokers for d in rules.failure_domains}
            found = filters.by_anti_affinity(found, counts, homes)
    ranks = [(index.spread(namespace).get(b, 0), int(scores[b] / 0.05), index.total(b), b) for b in found]
    return min(ranks)[-1] if ranks else None


@settings(max_examples=examples(80))
@given(seed=st.integers(0, 2**32))
def test_placement_chooses_as_the_filters_would_one_after_the_other(seed: int) -> None:
    dice = random.Random(seed)
    domains = tuple(FailureDomain(f"r{at}", tuple(NAMES[at::3])) for at in range(2))  # the third is no domain's
    rules = PlacementSettings(
        isolation=(ALPHA,) if dice.random() < 0.5 else (),
        failure_domains=domains if dice.random() < 0.6 else (),
        anti_affinity=(AntiAffinityGroup("g", tuple(dice.sample(SPACES, 3))),) if dice.random() < 0.7 else (),
    )
    cap = dice.choice((None, 2, 4))
    scores = {name: dice.random() for name in NAMES if dice.random() < 0.8}
    index, records = Holdings(), dict[Bundle, Ownership]()
    limits = AssignmentRules(rules, cap, dict.fromkeys(scores), lambda: index)
    placement = Assigner(lambda: index, scores, limits)
    for _ in range(60):
        bundle = dice.choice(BUNDLES)
        old = records.get(bundle)
        leaving = old.by.broker if old is not None and old.by is not None else None
        barred = frozenset(dice.sample(NAMES, dice.randint(0, 3))) | ({leaving} if leaving else set())
        chosen = placement.choose(bundle.namespace, barred, leaving=leaving)
        assert chosen == naively(index, scores, rules, cap, bundle.namespace, barred, leaving)
        target = chosen if dice.random() < 0.8 else dice.choice([None, *NAMES])
        owner = Session(target, 1, "n", 1) if target is not None else None
        new = Ownership(bundle, State.OWNED if owner else State.FREE, 1, by=owner)
        index.replace(old, new)
        records[bundle] = new
        if leaving != target:
            placement.note_move(bundle.namespace, leaving, target)
