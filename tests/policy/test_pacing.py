"""Token buckets, what failures do to them, and exchanges that stand or fall together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves
from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.ownership import Ownership
from controller.domain.settings.policy import PacingSettings
from controller.domain.state import SHADOW
from controller.policy.pacing import BURST_MIN, LEAST_PACE, RateLimits, pace, skip_lone_halves
from controller.policy.plan import PACING, make_plan
from controller.policy.round import replay_round, run_round, run_with_challengers
from controller.policy.view.snapshot import FULL_PACE, UNLIMITED, Snapshot

MINUTE_MS = 60_000
LIMIT = 0.85
PACING_2 = PacingSettings(broker_moves_per_min=2, namespace_moves_per_min=3, cluster_moves_per_min=None)


def move(bundle: str, source: str = "b0", target: str = "b1", **evidence: Any) -> Decision:
    return Decision("", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, bundle, source, target, epoch=3,
                    evidence=evidence)  # fmt: skip


def rate_limits(memory: dict[str, Any] | None = None, snapshot: Snapshot | None = None) -> RateLimits:
    return RateLimits(snapshot or loads(50, 50, 50).snapshot(), PACING_2, memory or {}, LIMIT)


class TestBuckets:
    def test_a_broker_makes_two_minutes_worth_at_once_as_source_and_target_together(self) -> None:
        bought = rate_limits()
        wanted = [move(f"n{at}/x/0x0") for at in range(3)] + [move(f"m{at}/x/0x0", "b1", "b0") for at in range(3)]
        paced = pace(wanted, 100, rate_limits=bought)
        assert [d.kind.value for d in paced] == ["transfer"] * BURST_MIN * 2 + ["skip"] * 2
        assert {(d.reason, d.evidence["paced_by"]) for d in paced[4:]} == {(Reason.BUDGET_SPENT, "broker b1")}
        assert bought.quota.brokers.tolist() == [0, 0, BURST_MIN * 2]

    def test_an_overloaded_broker_gives_away_twice_as_much(self) -> None:
        first = rate_limits(snapshot=loads(85, 84.9, 50).snapshot())
        assert first.quota.brokers.tolist() == [8, 4, 4]
        wanted = [move(f"n{at}/x/0x0", target=f"b{1 + at % 4}") for at in range(9)]
        assert len(moves_of(pace(wanted, 100, rate_limits=first))) == 8
        kept = first.remember([], carried_out=True)
        assert rate_limits(kept, loads(86, 50, 50).later().snapshot()).quota.brokers[0] == 4
        assert rate_limits(kept, loads(84, 50, 50).later().snapshot()).quota.brokers[0] == 2

    def test_who_crosses_the_limit_to_and_fro_gains_no_moves(self) -> None:
        first = rate_limits(snapshot=loads(90, 50).snapshot())
        pace([move(f"n{at}/x/0x0", target=f"b{at + 1}") for at in range(4)], 100, rate_limits=first)
        kept = first.remember([], carried_out=True)
        below = rate_limits(kept, loads(84, 50).snapshot())
        assert below.quota.brokers[0] == 2
        again = rate_limits(below.remember([], carried_out=True), loads(86, 50).snapshot())
        assert again.quota.brokers[0] == 4

    def test_a_namespace_is_paced_whoever_its_brokers_are(self) -> None:
        paced = pace([move(f"t/n/{at}", f"s{at}", f"t{at}") for at in range(7)], 100, rate_limits=rate_limits())
        assert [d.reason for d in paced] == [Reason.ABOVE_MEAN] * 6 + [Reason.BUDGET_SPENT]
        assert paced[6].evidence["paced_by"] == "namespace t/n"

    def test_the_cluster_has_a_bucket_of_its_own(self) -> None:
        bought = RateLimits(loads(50, 50).snapshot(), replace(PACING_2, cluster_moves_per_min=1), {}, LIMIT)
        assert bought.quota.allow(100) == BURST_MIN
        paced = pace([move(f"n{at}/x/0", f"s{at}", f"t{at}") for at in range(3)], 100, rate_limits=bought)
        assert [d.evidence.get("paced_by") for d in paced] == [None, None, "cluster"]

    def test_time_fills_a_bucket_and_a_full_one_is_forgotten(self) -> None:
        first = rate_limits()
        built = loads(50, 50, 50)
        pace([move(f"n{at}/x/0") for at in range(4)], 100, rate_limits=first)
        kept = first.remember([], carried_out=True)
        assert kept["buckets"]["broker b0"] == [0, FULL_PACE]
        minute = rate_limits(kept, built.later().snapshot())
        assert minute.quota.brokers.tolist() == [2, 2, 4]
        assert rate_limits(kept, built.later().snapshot()).remember([], carried_out=True) == {}

    def test_what_is_not_carried_out_costs_nothing(self) -> None:
        bought = rate_limits()
        assert len(moves_of(pace([move(f"n{at}/x/0") for at in range(4)], 100, rate_limits=bought))) == 4
        assert bought.remember([], carried_out=False) == {}

    def test_operators_wishes_are_not_paced(self) -> None:
        wishes = [replace(move(f"n{at}/x/0"), reason=Reason.OVERRIDDEN) for at in range(9)]
        assert pace(wishes, 100, rate_limits=rate_limits()) == wishes

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from("xy")), max_size=40))
    def test_no_bucket_is_ever_overdrawn(self, ways: list[tuple[str, str, str]]) -> None:
        wanted = [move(f"{space}/n/{at}", *way) for at, (*way, space) in enumerate(ways) if way[0] != way[1]]
        done = moves_of(pace(wanted, 100, rate_limits=rate_limits()))
        for broker in "abc":
            assert sum(broker in (d.source, d.target) for d in done) <= 2 * BURST_MIN
        for space in "xy":
            assert sum(str(d.bundle).startswith(space) for d in done) <= 3 * BURST_MIN


class TestFailures:
    def test_each_failure_halves_the_pace_down_to_an_eighth(self) -> None:
        memory: dict[str, Any] = {}
        paces = []
        for _ in range(5):
            built = loads(50, 50, 50)
            memory = fail(built, memory)
            paces.append(memory["buckets"]["cluster"][1])
        assert paces == [500, 250, LEAST_PACE, LEAST_PACE, LEAST_PACE]
        assert rate_limits(memory, built.snapshot()).quota.allow(80) == 10

    def test_only_who_took_part_is_slowed_down_and_the_cluster(self) -> None:
        slowed = fail(loads(50, 50, 50), {})["buckets"]
        assert set(slowed) == {"broker b0", "broker b1", "namespace t/ns", "cluster"}
        assert {name: pace for name, (_, pace) in slowed.items()} == dict.fromkeys(slowed, 500)

    def test_a_pace_grows_back_by_a_tenth_a_minute(self) -> None:
        built = loads(50, 50, 50)
        memory = fail(built, {})
        for minute in range(1, 5):
            assert rate_limits(memory, built.later().snapshot()).quota.pace == 500 + 100 * minute
        assert rate_limits(memory, built.later().snapshot()).remember([], carried_out=True) == {}

    def test_two_failures_in_one_round_count_once(self) -> None:
        built = loads(50, 50, 50)
        names = [str(b["bundle"]) for b in built.bundles[:2]]
        memory = begun(built, names)
        for name in names:
            ended(built, name, owner="b0")
        assert rate_limits(memory, built.snapshot()).quota.pace == 500

    @pytest.mark.parametrize("owner", ["b1", "b0"])
    def test_success_is_no_failure_and_neither_is_a_move_still_under_way(self, owner: str) -> None:
        built = loads(50, 50, 50)
        name = str(built.bundles[0]["bundle"])
        memory = begun(built, [name])
        if owner == "b1":
            ended(built, name, owner="b1")
        later = rate_limits(memory, built.later().snapshot())
        assert later.quota.pace == FULL_PACE
        assert bool(later.remember([], carried_out=True).get("begun")) == (owner == "b0"), "it may yet begin"
        forgotten = rate_limits(memory, built.later(5 * MINUTE_MS).snapshot())
        assert forgotten.quota.pace == FULL_PACE
        assert forgotten.remember([], carried_out=True) == {}


class TestExchange:
    def test_both_halves_pass_or_none(self) -> None:
        halves = [move("n/a/0", swapped_with="n/b/0"), move("n/b/0", "b1", "b0", swapped_with="n/a/0")]
        assert pace(halves, 2) == halves
        assert [d.reason for d in pace(halves, 1)] == [Reason.BUDGET_SPENT] * 2

    def test_a_half_that_comes_late_is_judged_with_the_first(self) -> None:
        first, second = move("n/a/0", swapped_with="n/b/0"), move("n/b/0", "b1", "b0", swapped_with="n/a/0")
        paced = pace([first, move("n/c/0"), move("n/d/0"), second], 3)
        assert [d.kind.value for d in paced] == ["transfer", "transfer", "skip", "transfer"]

    def test_a_half_that_was_filtered_takes_the_other_with_it(self) -> None:
        halves = (
            replace(move("n/a/0", swapped_with="n/b/0"), kind=DecisionKind.SKIP, reason=Reason.AVOIDED),
            move("n/b/0", "b1", "b0", swapped_with="n/a/0"),
        )
        assert [d.reason for d in skip_lone_halves(halves)] == [Reason.AVOIDED] * 2


class TestRounds:
    def test_a_round_spends_and_the_next_one_remembers(self) -> None:
        built = loads(80, 10, parts=30)
        built.settings = replace(built.settings, pacing=replace(PACING_2, namespace_moves_per_min=None))
        built.round()
        second = built.later().round()
        assert len(moves(second)) == 2 * BURST_MIN
        assert second.memory["headroom"][PACING]["buckets"]["broker b0"][0] == 0
        held_back = [d for d in second.decisions if d.evidence.get("paced_by") == "broker b0"]
        assert held_back, "what was over the budget is told"
        assert replay_round(second.inputs) == second.plan_hash
        third = built.later().round()
        assert len(moves(third)) == 2
        assert replay_round(third.inputs) == third.plan_hash

    def test_steady_chooses_no_more_than_its_brokers_may_move(self) -> None:
        built = loads(80, 20, 20, parts=30)
        built.settings = replace(built.settings, strategy="steady", pacing=PACING_2)
        results = [built.round() for _ in range(8) if built.later()]
        acting = next(result for result in results if moves(result))
        assert len(moves(acting)) == 2 * BURST_MIN
        assert not any(d.evidence.get("paced_by") for d in acting.decisions), "it knew beforehand"

    def test_shadow_and_challengers_leave_the_buckets_full(self) -> None:
        built = loads(90, 10, parts=30)
        built.settings = replace(built.settings, challengers=("steady",))
        built.state.mode = SHADOW
        built.round()
        first = run_with_challengers(built.later().inputs())[0]
        assert moves(first)
        assert all(PACING not in memory for memory in first.memory.values())
        built.state.mode = "live"
        memory = run_with_challengers(built.inputs())[0].memory
        assert PACING in memory["headroom"]
        assert PACING not in memory["steady"]

    def test_a_failure_is_seen_in_the_round_after_and_can_be_replayed(self) -> None:
        built = loads(90, 10, parts=30)
        built.round()
        acting = built.later().round()
        failed = str(moves(acting)[0].bundle)
        ended(built, failed, owner="b0")
        after = built.later().round()
        assert after.memory["headroom"][PACING]["buckets"]["cluster"][1] == 500
        assert replay_round(after.inputs) == after.plan_hash
        assert len(moves(after)) <= built.settings.shed.max_moves_per_round // 2

    def test_pulsars_own_strategies_have_their_own_limits_only(self) -> None:
        built = cluster(strategy="threshold", pacing=PacingSettings(1, 1, 1))
        plan = make_plan(loads(90, 10, parts=30).snapshot(), "threshold", {}, built.settings)
        assert plan.snapshot.quota.allow(100) == 100
        assert plan.snapshot.quota.remaining(2).tolist() == [UNLIMITED] * 2
        assert PACING not in run_round(built.broker("b0", 90).inputs()).memory["threshold"]


def moves_of(decisions: list[Decision]) -> list[Decision]:
    return [d for d in decisions if d.kind is DecisionKind.TRANSFER]


def begun(built: ClusterBuilder, bundles: list[str], memory: dict[str, Any] | None = None) -> dict[str, Any]:
    """The memory after a round that moved these bundles from b0 to b1."""
    bought = rate_limits(memory, built.snapshot())
    return bought.remember([move(name) for name in bundles], carried_out=True)


def ended(built: ClusterBuilder, bundle: str, owner: str) -> None:
    """The move burned an epoch, and the bundle is this broker's now."""
    record: Ownership = built.state.bundles[bundle]
    session = built.state.brokers[owner].session
    built.state.bundles[bundle] = replace(record, epoch=record.epoch + 1, by=session, to=None)


def fail(built: ClusterBuilder, memory: dict[str, Any]) -> dict[str, Any]:
    """The memory after one more move of the first bundle that ended where it began."""
    name = str(built.bundles[0]["bundle"])
    memory = begun(built, [name], memory)
    ended(built, name, owner="b0")
    return rate_limits(memory, built.snapshot()).remember([], carried_out=True)
