"""Strategy `steady` and what a process uses without any traffic, its base: used capacity, and nobody's fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.case import carry_out
from benchmarks.published.clusters import ClusterBuilder, cluster, moves
from controller.domain.decision import Reason, RoundResult
from controller.policy.strategies.steady.capacity import learn
from controller.policy.strategies.steady.hits import Past
from controller.policy.strategies.steady.model import Model
from tests.examples import examples


def based(base: float, *works: float, parts: int = 20) -> ClusterBuilder:
    """Brokers b0, b1, … that use `base` percent without traffic, and so much more for that many equal bundles."""
    built = cluster(strategy="steady")
    for at, work in enumerate(works):
        broker(built, f"b{at}", base, work)
        for _ in range(parts if work else 0):
            built.bundle(f"b{at}", cpu=work / parts)
    return built


def broker(built: ClusterBuilder, name: str, base: float, work: float, incarnation: int = 1) -> None:
    """One broker with what it uses for its bundles and besides."""
    built.broker(name, cpu=work, incarnation=incarnation)
    built.brokers[name]["cpu_usage"] += base


def lived(built: ClusterBuilder, rounds: int) -> list[RoundResult]:
    """Rounds with their moves carried out; none costs more or less than its traffic."""
    results = []
    for _ in range(rounds):
        results.append(built.round())
        for move in moves(results[-1]):
            carry_out(built, move)
        built.later()
    return results


def used(built: ClusterBuilder) -> list[float]:
    return [float(row["cpu_usage"]) for row in built.brokers.values()]


def told(results: list[RoundResult]) -> set[Reason]:
    """All reasons of moves and skips."""
    return {decision.reason for result in results for decision in result.decisions}


class TestFilled:
    def test_one_full_broker_beside_three_without_traffic(self) -> None:
        built = based(12.5, 75, 0, 0, 0)
        results = lived(built, 4)
        assert told(results).isdisjoint({Reason.EXTERNAL_LOAD, Reason.UNDER_PROVISIONED, Reason.SLOW_BROKER})
        assert max(used(built)) <= 1.05 * np.mean(used(built))

    @pytest.mark.parametrize("base", [0.0, 5.0, 12.0, 25.0, 40.0])
    def test_an_empty_broker_is_filled_at_once_and_up_to_the_others(self, base: float) -> None:
        built = based(base, 50, 50, 50, 0)
        assert {move.target for move in moves(built.round())} == {"b3"}
        built = based(base, 50, 50, 50, 0)
        lived(built, 10)
        assert used(built)[3] >= 0.85 * np.mean(used(built))
        assert max(used(built)) <= 1.1 * np.mean(used(built))

    @given(
        st.floats(0, 40),
        st.integers(1, 4),
        st.integers(1, 4),
        st.floats(20, 55),
        st.floats(0, 0.05),
        st.integers(0, 99),
    )
    @settings(max_examples=examples(6))
    def test_any_base_any_number_of_newcomers(
        self, base: float, old: int, new: int, work: float, noise: float, seed: int
    ) -> None:
        built, dice = based(base, *[work] * old, *[0.0] * new, parts=30), np.random.default_rng(seed)
        results = []
        for _ in range(10):
            true = {name: row["cpu_usage"] for name, row in built.brokers.items()}
            for name, row in built.brokers.items():
                row["cpu_usage"] = true[name] * dice.uniform(1 - noise, 1 + noise)
            results.append(built.round())
            for name, row in built.brokers.items():
                row["cpu_usage"] = true[name]
            for move in moves(results[-1]):
                carry_out(built, move)
            built.later()
        assert max(used(built)) <= 1.25 * np.mean(used(built))
        assert Reason.EXTERNAL_LOAD not in told(results)

    def test_it_counts_as_idle_until_it_is_close_to_the_level(self) -> None:
        """With the base in what a bundle seems to cost, the first moves bring half of what was meant."""
        built = based(30, 30, 30, 30, 0, parts=25)
        results = lived(built, 4)
        takers = [{move.target for move in moves(result)} for result in results]
        assert takers[0] == takers[1] == {"b3"}
        assert used(built)[3] >= 0.88 * np.mean(used(built))

    def test_a_quiet_cluster_of_bases_moves_nothing_and_blames_nobody(self) -> None:
        built = based(12.5, 0, 0, 0, 0)
        for at, name in enumerate(built.brokers):
            built.brokers[name]["cpu_usage"] += at
        results = lived(built, 10)
        assert not [move for result in results for move in moves(result)]
        assert Reason.EXTERNAL_LOAD not in told(results)

    def test_what_an_empty_broker_uses_is_taken_off_what_bundles_seem_to_cost(self) -> None:
        """From the next round on: what a process uses when it has just started may be gone by then."""
        built = based(20, 50, 50, 0)
        first = learn(built.snapshot(), {})
        assert first.explained.tolist() == [1, 1, 0]
        assert first.common_base == 20
        later = learn(based(20, 50, 50, 30).snapshot(), {}, first.common_base)
        assert later.explained.tolist() == pytest.approx([50 / 70, 50 / 70, 30 / 50])
        assert later.common_base == 20

    def test_a_base_that_is_gone_is_forgotten(self) -> None:
        assert learn(based(5, 50, 50, 10).snapshot(), {}, 20.0).common_base == pytest.approx(5)
        assert learn(based(0, 50, 50, 0).snapshot(), {}, 20.0).common_base == 0
        assert learn(based(20, 50, 50, 50).snapshot(), {}, 20.0).common_base == 20

    def test_what_was_remembered_before_bases_were_known_is_no_obstacle(self) -> None:
        """Version 1 of the memory may call a broker slow for nothing but its base; what it counted still holds."""
        built = based(25, 50, 50, 50, 0)
        built.state.round_memory = {
            "steady": {"v": 1, "noise": 7, "brokers": {"b0": [1, [40, 50], 2]}, "speeds": {"b3": [1, 2300]}}
        }
        result = built.round()
        assert {move.target for move in moves(result)} == {"b3"}
        assert next(row["hits"] for row in result.scores if row["broker"] == "b0") == 3


class TestJudged:
    @pytest.mark.parametrize("base", [5.0, 12.5, 25.0])
    def test_little_traffic_beside_a_base_makes_nobody_slow(self, base: float) -> None:
        for works in ((75, 8, 8, 8), (60, 60, 60, 15), (40, 40, 20, 12)):
            found = learn(based(base, *works).snapshot(), {})
            assert not found.slow.any()
            assert not found.foreign.any()

    def test_a_slow_broker_is_known_among_bases(self) -> None:
        built = based(12.5, 50, 50, 50, 20)
        broker(built, "b1", 12.5, 20)
        built.brokers["b1"]["cpu_usage"] = 62.5
        assert learn(built.snapshot(), {}).slow.tolist() == [False, True, False, False]

    def test_load_that_its_traffic_does_not_explain_is_foreign(self) -> None:
        built = based(10, 50, 50, 50, 12)
        built.brokers["b3"]["cpu_usage"] = 90.0
        found = learn(built.snapshot(), {})
        assert found.foreign.tolist() == [False, False, False, True]
        (reason,) = [d.reason for d in built.round().decisions if d.source == "b3"]
        assert reason is Reason.EXTERNAL_LOAD

    def test_without_traffic_a_load_is_a_base_however_large(self) -> None:
        built = based(10, 50, 50, 0)
        built.brokers["b2"]["cpu_usage"] = 80.0
        found = learn(built.snapshot(), {})
        assert not found.foreign.any()
        assert found.base.tolist() == [0, 0, 80]

    def test_bundles_of_a_broker_with_little_traffic_cost_their_traffic_only(self) -> None:
        built = based(25, 50, 50, 2)
        snapshot = built.snapshot()
        model = Model(snapshot, learn(snapshot, {}))
        mine = snapshot.bundles_of(2)
        theirs = snapshot.bundles_of(0)
        ratio = model.work(mine, 2).sum() / model.work(theirs, 0).sum()
        assert ratio == pytest.approx(2 / 50)


class TestOccupied:
    def _warming_up(self) -> ClusterBuilder:
        built = based(0, 30, 30, 30, 0)
        built.brokers["b3"]["cpu_usage"] = 60.0
        return built

    def test_who_is_above_the_level_by_base_alone_takes_no_part_and_is_told_so(self) -> None:
        built = self._warming_up()
        result = built.round()
        assert not moves(result)
        (skip,) = [d for d in result.decisions if d.source == "b3"]
        assert skip.reason is Reason.EXTERNAL_LOAD
        assert skip.evidence["base"] == 6000
        assert skip.evidence["mean"] == 3000, "the others' level is what they can share"

    def test_it_is_filled_as_soon_as_the_base_falls(self) -> None:
        built = self._warming_up()
        lived(built, 3)
        built.brokers["b3"]["cpu_usage"] = 5.0
        assert {move.target for move in moves(built.round())} == {"b3"}

    def test_below_the_level_it_is_filled_whatever_its_base_is(self) -> None:
        built = based(0, 85, 85, 85, 0)
        built.brokers["b3"]["cpu_usage"] = 40.0
        built.settings = replace(built.settings, shed=replace(built.settings.shed, overloaded_threshold=0.95))
        lived(built, 10)
        assert used(built)[3] >= 60


def test_an_idle_broker_that_may_take_nothing_says_why() -> None:
    built = based(12.5, 50, 50, 0)
    built.lagging.add("b2")
    result = built.round()
    assert not moves(result)
    (skip,) = [d for d in result.decisions if d.source == "b2"]
    assert skip.reason is Reason.LAGGING


def test_a_past_of_an_older_version_reads_as_not_being_filled() -> None:
    assert Past.from_json([[-700], 0, 0, 0, 0, 0, 1]) == Past([-700], sudden=True, filling=0)
    assert Past.from_json(Past([-700], filling=3).to_json()) == Past([-700], filling=3)
