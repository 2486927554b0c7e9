"""Isolation, anti-affinity, failure domains and caps in a round: who must go where, whatever the strategy."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.published.clusters import ClusterBuilder, bundle_name, cluster, moves, reason_of
from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.ids import Bundle
from controller.domain.overrides import Override
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy, PlacementSettings
from controller.domain.settings.policy import PolicySettings
from controller.policy.decisions import make_transfer
from controller.policy.round import replay_round
from controller.policy.strategies import STRATEGIES
from controller.policy.strategies.base import StrategyOutcome, score_rows
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.placement import filters
from tests.examples import examples

ALPHA = IsolationPolicy("alpha", ("alpha/.*",), ("p[0-9]",), ("s[0-9]",))


def isolated(*policies: IsolationPolicy, **more: Any) -> PlacementSettings:
    return PlacementSettings(isolation=policies or (ALPHA,), **more)


def built(placement: PlacementSettings, strategy: str = "headroom", **brokers: float) -> ClusterBuilder:
    made = cluster(strategy=strategy, placement=placement)
    for name, cpu in brokers.items():
        made.broker(name, cpu=cpu)
    return made


def filled(made: ClusterBuilder, broker: str, namespace: str, count: int, cpu: float) -> list[str]:
    """So many bundles of a namespace on a broker; returns their names."""
    first = len(made.bundles)
    for _ in range(count):
        made.bundle(broker, cpu, namespace=namespace)
    return [bundle_name(number, namespace) for number in range(first, first + count)]


def of(result: RoundResult, bundle: str) -> Decision:
    (found,) = [d for d in result.decisions if d.bundle == bundle]
    return found


class TestIsolation:
    @pytest.mark.covers("physical-distance")
    def test_what_has_a_policy_goes_to_its_primaries_only(self) -> None:
        made = built(isolated(), p1=90, p2=30, s1=5, x1=5)
        filled(made, "p1", "alpha/a", 10, 9)
        assert {d.target for d in moves(made.second_round())} == {"p2"}

    def test_what_has_none_goes_to_no_primary(self) -> None:
        made = built(isolated(), p1=5, s1=30, x1=90)
        filled(made, "x1", "beta/a", 10, 9)
        assert {d.target for d in moves(made.second_round())} == {"s1"}

    def test_without_enough_primaries_the_secondaries_help(self) -> None:
        made = built(isolated(replace(ALPHA, min_available=2)), p1=90, s1=5, x1=5)
        filled(made, "p1", "alpha/a", 10, 9)
        assert {d.target for d in moves(made.second_round())} == {"s1"}

    def test_a_primary_that_is_to_be_emptied_is_not_available(self) -> None:
        made = built(isolated(), p1=5).broker("p2", cpu=90, drained=True).broker("x1", cpu=5)
        filled(made, "p1", "alpha/a", 1, 5)
        assert not moves(made.second_round()), "p1 is available and is where the bundle is"
        made = built(isolated()).broker("p1", drained=True).broker("s1", cpu=90).broker("s2", cpu=5)
        filled(made, "s1", "alpha/a", 10, 9)
        assert {d.target for d in moves(made.second_round())} == {"s2"}

    def test_the_first_matching_policy_counts(self) -> None:
        first = IsolationPolicy("special", ("alpha/a",), ("x1",))
        made = built(isolated(first, ALPHA), p1=5, p2=5, x1=50)
        filled(made, "p1", "alpha/a", 1, 5)
        home = of(made.round(), bundle_name(0, "alpha/a"))
        assert (home.target, home.evidence["isolation"]) == ("x1", "special")

    def test_an_expression_with_a_colon_is_matched_with_the_port(self) -> None:
        policy = IsolationPolicy("one", ("alpha/.*",), ("node:80(?:81|82)",))
        made = built(isolated(policy)).broker("node:8081", cpu=90).broker("node:8082", cpu=5).broker("node:8083", cpu=5)
        filled(made, "node:8081", "alpha/a", 10, 9)
        assert {d.target for d in moves(made.second_round())} == {"node:8082"}

    def test_evidence_tells_what_the_rule_cost(self) -> None:
        made = built(isolated(), p1=90, p2=88, x1=5, x2=5)
        filled(made, "p1", "alpha/a", 10, 9)
        result = made.second_round()
        assert not moves(result)
        (told,) = [d.evidence for d in result.decisions if d.source == "p1"]
        assert told["targets_lost"] == {Reason.ISOLATION.value: 2}

    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_a_pair_that_isolation_forbids_is_shown_with_it(self, strategy: str) -> None:
        """b1 serves both tenants, b2 and b3 one each."""
        policies = (IsolationPolicy("a", ("a/.*",), ("b[12]",)), IsolationPolicy("c", ("c/.*",), ("b[13]",)))
        made = built(isolated(*policies), strategy, b1=90, b2=20, b3=20)
        filled(made, "b1", "a/n", 5, 9)
        filled(made, "b1", "c/n", 5, 9)
        made.round()
        found = moves(made.later().round())
        assert {(str(d.bundle)[0], d.target) for d in found} == {("a", "b2"), ("c", "b3")}
        lost = [pair for d in found for pair in d.evidence["pairs"] if pair["lost_by"] == Reason.ISOLATION.value]
        assert {(pair["bundle"][0], pair["target"]) for pair in lost} == {("a", "b3"), ("c", "b2")}
        assert found[0].evidence["pairs_lost"][Reason.ISOLATION.value] == 10

    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_pools_that_can_share_nothing_are_balanced_one_by_one(self, strategy: str) -> None:
        """The primaries are full but for one; that all others are idle helps nobody, and hinders nobody."""
        made = built(isolated(), strategy, p1=90, p2=85, p3=40, x1=5, x2=5, x3=5)
        filled(made, "p1", "alpha/a", 20, 4.5)
        filled(made, "p2", "alpha/a", 20, 4.2)
        found = [move for _ in range(6) for move in moves(made.later().round())]
        assert {d.target for d in found} == {"p3"}
        means = {row["broker"]: row["mean"] for row in made.later().round().scores}
        assert means["p1"] == means["p3"] == pytest.approx(0.7167, abs=1e-3)
        assert means["x1"] == pytest.approx(0.05)

    def test_a_pool_that_begins_uneven_does_not_wait_because_the_others_are_even(self) -> None:
        made = built(isolated(), "steady", p1=70, p2=10, **{f"x{number}": 40 for number in range(1, 41)})
        filled(made, "p1", "alpha/a", 20, 3.5)
        assert {d.target for d in moves(made.round())} == {"p2"}


class TestMisplaced:
    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_what_is_where_it_must_not_be_is_brought_home_at_once(self, strategy: str) -> None:
        made = built(isolated(), strategy, p1=20, p2=10, x1=20)
        (stray,) = filled(made, "x1", "alpha/a", 1, 5)
        (guest,) = filled(made, "p1", "beta/a", 1, 5)
        result = made.round()
        assert [(of(result, b).target, of(result, b).reason) for b in (stray, guest)] == [
            ("p2", Reason.MISPLACED),
            ("x1", Reason.MISPLACED),
        ]
        assert len(moves(result)) == 2
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash

    @pytest.mark.parametrize("strategy", ["overload", "threshold", "uniform", "average", "transfer", "simple"])
    def test_pulsar_s_strategies_leave_it(self, strategy: str) -> None:
        made = built(isolated(), strategy, p1=20, p2=10, x1=20)
        filled(made, "x1", "alpha/a", 1, 5)
        assert not moves(made.round())

    def test_not_more_than_the_budget_and_not_within_the_grace_period(self) -> None:
        made = built(isolated(), p1=5, x1=30)
        names = filled(made, "x1", "alpha/a", 12, 1)
        moved = made.at_ms - 60_000
        made.bundle("x1", 1, namespace="alpha/b", moved_at_ms=moved)
        result = made.round()
        assert len(moves(result)) == made.settings.shed.max_moves_per_round
        assert {d.bundle for d in moves(result)} == set(names[:8])
        assert reason_of(made.with_settings(shed={"max_moves_per_round": 0}).later().round(), "x1") in (
            Reason.BUDGET_SPENT,
            Reason.HIT_COUNT,
        )

    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_a_home_is_not_overloaded_for_it(self, strategy: str) -> None:
        made = built(isolated(), strategy, p1=80, x1=30, x2=30)
        filled(made, "x1", "alpha/a", 1, 10)
        result = made.round()
        assert not moves(result)
        assert reason_of(result, "x1") is Reason.TARGET_ABOVE_MEAN

    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_large_ones_without_room_hold_back_no_small_ones(self, strategy: str) -> None:
        made = built(isolated(), strategy, p1=80, x1=60.75)
        for size in (*[6.0] * 10, 0.5, 0.25):
            filled(made, "x1", "alpha/a", 1, size)
        small = [bundle_name(number, "alpha/a") for number in (10, 11)]
        assert sorted(str(d.bundle) for d in moves(made.round())) == small

    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_without_a_home_it_stays_and_the_reason_is_told(self, strategy: str) -> None:
        made = built(isolated(), strategy, x1=30, x2=30)
        filled(made, "x1", "alpha/a", 200, 0.1)
        result = made.round()
        assert not moves(result)
        assert reason_of(result, "x1") is Reason.ISOLATION

    @pytest.mark.parametrize("strategy", ["headroom", "steady"])
    def test_what_is_too_small_to_be_reported_comes_home_as_well(self, strategy: str) -> None:
        made = built(isolated(), strategy, p1=20, p2=10, x1=20)
        strays = filled(made, "x1", "alpha/a", 3, 0)
        filled(made, "x1", "beta/b", 3, 5)
        filled(made, "p1", "alpha/c", 3, 5)
        made.state.namespaces = {"alpha/a": tuple(map(Bundle.parse, strays))}
        del made.bundles[1:3]
        result = made.round()
        assert sorted((d.bundle, d.source, d.target) for d in moves(result)) == [(b, "x1", "p2") for b in strays]
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash

    def test_what_a_secondary_holds_goes_back_when_a_primary_is_there_again(self) -> None:
        made = built(isolated(), s1=20, x1=20)
        filled(made, "s1", "alpha/a", 1, 5)
        assert not moves(made.round()), "no primary: the secondary serves"
        made.later().broker("p1", cpu=1)
        assert [d.target for d in moves(made.round())] == ["p1"]


class TestAntiAffinity:
    GROUP = (AntiAffinityGroup("g", ("t/a", "t/b")),)

    def test_a_broker_that_has_the_group_is_no_target_while_another_has_none(self) -> None:
        made = built(PlacementSettings(anti_affinity=self.GROUP), b1=90, b2=10, b3=40)
        grouped = filled(made, "b1", "t/a", 2, 40)
        filled(made, "b2", "t/b", 1, 10)
        filled(made, "b1", "t/c", 2, 5)
        result = made.second_round()
        assert {d.bundle: d.target for d in moves(result) if d.bundle in grouped} in ({grouped[0]: "b3"}, {})
        made.settings = replace(made.settings, placement=PlacementSettings())
        assert {d.target for d in moves(made.later().round())} >= {"b2"}

    @pytest.mark.covers("physical-distance")
    def test_domains_come_before_brokers(self) -> None:
        domains = (FailureDomain("r1", ("b1", "b2")), FailureDomain("r2", ("b3", "b4")))
        placement = PlacementSettings(anti_affinity=self.GROUP, failure_domains=domains)
        made = built(placement, b1=90, b2=1, b3=20, b4=30)
        filled(made, "b1", "t/a", 12, 7)
        found = moves(made.second_round())
        assert found
        assert {d.target for d in found} <= {"b3", "b4"}, "b2 has room, and is in the domain that has them all"

    def test_a_bundle_does_not_stand_in_its_own_way(self) -> None:
        """The only one of its group may go anywhere; of two, either may go where the other is not."""
        made = built(PlacementSettings(anti_affinity=self.GROUP), b1=95, b2=5, b3=60)
        (lone,) = filled(made, "b1", "t/a", 1, 30)
        made.bundle("b1", 60, namespace="t/pinned", name=bundle_name(50, "t/pinned"))
        assert {d.bundle: d.target for d in moves(made.second_round())} == {lone: "b2"}

    def test_bundles_of_the_group_that_nobody_reports_yet_count_as_well(self) -> None:
        """Halves of a bundle that was split a second ago: the journal knows who has them."""
        made = built(PlacementSettings(anti_affinity=self.GROUP), b1=90, b2=5, b3=20)
        filled(made, "b1", "t/a", 6, 9)
        filled(made, "b2", "t/b", 8, 0.1)
        assert {d.target for d in moves(made.second_round())} == {"b3"}
        made = built(PlacementSettings(anti_affinity=self.GROUP), b1=90, b2=5, b3=20)
        filled(made, "b1", "t/a", 6, 9)
        filled(made, "b2", "t/b", 8, 0.1)
        del made.bundles[-8:]
        assert {d.target for d in moves(made.second_round())} == {"b3"}

    def test_moves_of_a_round_count_for_those_after_them(self) -> None:
        made = built(PlacementSettings(anti_affinity=self.GROUP), b1=96, b2=5, b3=5, b4=5)
        filled(made, "b1", "t/a", 12, 8)
        targets = Counter(d.target for d in moves(made.second_round()))
        assert len(targets) == 3
        assert max(targets.values()) - min(targets.values()) <= 1


class TestCaps:
    @pytest.mark.parametrize("strategy", sorted(STRATEGIES))
    def test_no_broker_gets_more_bundles_than_the_cap(self, strategy: str) -> None:
        made = built(PlacementSettings(), strategy, b1=95, b2=10, b3=10).with_settings(caps={"max_bundles": 6})
        filled(made, "b1", "t/a", 20, 4.5)
        filled(made, "b2", "t/b", 5, 2)
        filled(made, "b3", "t/b", 6, 1.5)
        for _ in range(10):
            result = made.round()
            assert Counter(d.target for d in moves(result)) in (Counter(), Counter(b2=1))
            assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash
            made.later()

    def test_bundles_that_nobody_reports_count_as_well(self) -> None:
        made = built(PlacementSettings(), b1=95, b2=10).with_settings(caps={"max_bundles": 6})
        filled(made, "b1", "t/a", 10, 9)
        filled(made, "b2", "t/b", 6, 1)
        del made.bundles[-3:]
        result = made.second_round()
        assert not moves(result)
        (told,) = [d.evidence for d in result.decisions if d.source == "b1"]
        assert told["targets_lost"] == {Reason.BROKER_CAP.value: 1}


class TestOverrides:
    def test_a_pin_to_a_forbidden_broker_is_a_skip_that_says_why(self) -> None:
        made = built(isolated(), p1=20, x1=20)
        (name,) = filled(made, "p1", "alpha/a", 1, 5)
        made.state.overrides["w"] = Override("w", "pin", bundle=name, broker="x1")
        told = of(made.round(), name)
        assert (told.kind, told.reason, told.strategy) == (DecisionKind.SKIP, Reason.ISOLATION, "overrides")

    def test_what_should_leave_goes_where_it_may(self) -> None:
        made = built(isolated(), p1=20, p2=50, x1=1)
        (name,) = filled(made, "p1", "alpha/a", 1, 5)
        made.state.overrides["w"] = Override("w", "avoid", bundle=name, broker="p1")
        assert of(made.round(), name).target == "p2"


class TestVersions:
    def with_versions(self, *versions: str | None) -> ClusterBuilder:
        made = built(PlacementSettings(prefer_later_versions=True), b0=90, b1=5, b2=20)
        filled(made, "b0", "t/a", 10, 9)
        for at, version in enumerate(versions):
            record = made.state.brokers[f"b{at}"]
            made.state.brokers[f"b{at}"] = replace(record, info={} if version is None else {"version": version})
        return made

    def test_only_the_newest_are_targets(self) -> None:
        result = self.with_versions("4.0.7", "4.0.7", "4.0.8").second_round()
        assert {d.target for d in moves(result)} == {"b2"}
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash

    @pytest.mark.parametrize("unknown", [None, "", "main"])
    def test_a_broker_that_tells_none_switches_the_rule_off(self, unknown: str | None) -> None:
        result = self.with_versions(unknown, "4.0.7", "4.0.8").second_round()
        assert "b1" in {d.target for d in moves(result)}


def test_without_rules_nothing_of_them_is_stored() -> None:
    made = built(PlacementSettings(), b1=90, b2=5)
    filled(made, "b1", "t/a", 10, 9)
    frame = made.second_round().inputs["frame"]
    assert "rule_facts" not in frame


# ---------------------------------------------------------------------- no strategy ever breaks a hard rule

SPACES = ("alpha/a", "alpha/b", "beta/a", "beta/b")


def drawn(seed: int, strategy: str) -> ClusterBuilder:
    """Brokers of a few kinds, crowded here and there, under rules that are drawn as well."""
    dice = random.Random(seed)
    policies = (ALPHA, IsolationPolicy("beta", ("beta/a",), ("x[12]",), ("x3",), 2))
    names = ["p1", "p2", "s1", "s2", "x1", "x2", "x3", "x4"]
    domains = tuple(FailureDomain(f"r{at}", tuple(names[at::3])) for at in range(3))
    placement = PlacementSettings(
        isolation=policies[: dice.randint(0, 2)],
        failure_domains=domains if dice.random() < 0.5 else (),
        anti_affinity=(AntiAffinityGroup("g", tuple(dice.sample(SPACES, 2))),) if dice.random() < 0.6 else (),
    )
    made = cluster(placement=placement, strategy=strategy).with_settings(
        caps={"max_bundles": dice.choice((None, 6, 12))}
    )
    for name in names:
        held, size = dice.choice((0, 2, 5, 14)), dice.uniform(1, 6)
        made.broker(name, cpu=min(99.0, held * size), drained=dice.random() < 0.1)
        for _ in range(held):
            made.bundle(name, size, namespace=dice.choice(SPACES))
    return made


def allowed_naively(made: ClusterBuilder, namespace: str) -> list[str]:
    placement = made.settings.placement
    there = [name for name in sorted(made.brokers) if not made.state.brokers[name].drained]
    pulsars = [filters.IsolationPolicy(p.primary, p.secondary, p.min_available) for p in placement.isolation]
    tenant, first = namespace.partition("/")[0], None
    if tenant == "alpha" and placement.isolation:
        first = pulsars[0]
    elif namespace == "beta/a" and len(placement.isolation) > 1:
        first = pulsars[1]
    return filters.by_isolation(there, first, pulsars)


def check_moves(made: ClusterBuilder, result: RoundResult) -> None:
    """Move by move against the filters on names; what is moved counts from then on. An exchange is one choice."""
    placement, cap = made.settings.placement, made.settings.caps.max_bundles
    owner = {row["bundle"]: row["broker"] for row in made.bundles}
    held = Counter(owner.values())
    open_ = {name for name in made.brokers if cap is None or held[name] < cap}
    homes = {d.name: d.brokers for d in placement.failure_domains} or None
    begun: set[str] = set()
    for move in moves(result):
        source, target, space = str(move.source), str(move.target), str(move.bundle).rpartition("/")[0]
        candidates = allowed_naively(made, space)
        assert target in candidates, move
        if placement.anti_affinity and space in placement.anti_affinity[0].namespaces:
            members = (n for n in owner if n.rpartition("/")[0] in placement.anti_affinity[0].namespaces)
            counts = Counter(owner[n] for n in members if n != move.bundle)
            choice = {name for name in candidates if name in open_} | ({source} & set(candidates))
            assert target in filters.by_anti_affinity(sorted(choice), counts, homes), (move, counts)
        owner[str(move.bundle)] = target
        begun ^= {str(move.bundle), str(move.swapped_with)} if move.swapped_with else set()
        if begun:  # the other half is still to come
            continue
        before, held = held, Counter(owner.values())
        for name in (source, target):
            assert cap is None or held[name] <= max(cap, before[name]), move
    assert not begun, "half of an exchange"


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@given(seed=st.integers(0, 2**32))
@example(seed=256264)  # an exchange with a broker that is at the cap
@settings(max_examples=examples(12))
def test_no_plan_of_any_strategy_breaks_a_hard_rule(strategy: str, seed: int) -> None:
    made = drawn(seed, strategy)
    for _ in range(4):
        result = made.round()
        check_moves(made, result)
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash
        made.later()


class Rogue:
    """Moves bundles anywhere, as one might that was written without these rules in mind."""

    name = "rogue"
    rules = 1

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        dice = random.Random(snapshot.at_ms)
        free = [at for at, block in enumerate(snapshot.bundle_block.tolist()) if block == ALLOWED]
        targets = [at for at, block in enumerate(snapshot.target_block.tolist()) if block == ALLOWED]
        moved = []
        for at in dice.sample(free, min(12, len(free))):
            target = dice.choice(targets or [-1])
            if target not in (-1, int(snapshot.owner[at])):
                way = int(snapshot.owner[at]), target
                moved.append(
                    make_transfer(snapshot, at, way, [0, 0], [0, 0], reason=Reason.ABOVE_MEAN, strategy="rogue")
                )
        nobody = np.zeros(len(snapshot.brokers), bool)
        reasons = dict.fromkeys(range(len(nobody)), Reason.BALANCED)
        rows = score_rows(snapshot, 0, np.zeros(len(nobody), np.int64), nobody, reasons)
        return StrategyOutcome(tuple(moved), rows, {}, np.ones(len(snapshot.bundles), bool), 100)


def test_what_a_strategy_gets_wrong_is_put_right_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "rogue", Rogue())
    kept, lost = 0, Counter[Reason]()
    for seed in range(150):
        made = drawn(seed, "rogue")
        result = made.round()
        check_moves(made, result)
        kept += len(moves(result))
        lost += Counter(d.reason for d in result.decisions if d.kind is DecisionKind.SKIP and d.bundle)
    assert kept > 100
    rules = {Reason.ISOLATION, Reason.ANTI_AFFINITY, Reason.FAILURE_DOMAIN, Reason.BROKER_CAP}
    assert all(lost[rule] > 10 for rule in rules), lost


def test_the_settings_come_back_from_what_a_round_stored() -> None:
    placement = isolated(
        failure_domains=(FailureDomain("r", ("a", "b:8080")),), anti_affinity=(AntiAffinityGroup("g", ("t/a",)),)
    )
    made = built(placement, p1=1)
    stored = json.loads(json.dumps(made.round().inputs["settings"]["placement"]))
    assert PlacementSettings.from_json(stored) == placement
    assert PlacementSettings.from_json({}) == PolicySettings().placement
