"""Strategy `steady` and what a process uses without any traffic, its base: used capacity, and nobody's fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.case import NO_TRAFFIC, carry_out
from benchmarks.published.clusters import ClusterBuilder, cluster, moves, splits
from controller.domain.decision import Decision, Reason, RoundResult
from controller.policy.strategies.steady.model import LEAST_LEVEL
from controller.policy.strategies.steady.timing import OCCUPIED_FOR, PROBES
from controller.policy.usage.bursts import PATIENCE
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
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


def take_along(built: ClusterBuilder, move: Decision, points: float) -> None:
    """The moved bundle costs so many points of CPU more than its traffic says."""
    built.brokers[str(move.source)]["cpu_usage"] -= points
    built.brokers[str(move.target)]["cpu_usage"] += points


def used(built: ClusterBuilder) -> list[float]:
    return [float(row["cpu_usage"]) for row in built.brokers.values()]


def give(built: ClusterBuilder, row: dict[str, Any], broker: str) -> None:
    """Let the broker own the row's bundle; what brokers use stays as it is."""
    row["broker"] = broker
    record = built.state.bundles[row["bundle"]]
    built.state.bundles[row["bundle"]] = replace(record, by=built.state.brokers[broker].session)


def beside_eight(base: float, work: float) -> ClusterBuilder:
    """A ninth broker, b8, with one bundle."""
    built = based(base, *[12.0] * 8)
    broker(built, "b8", base, work)
    return built.bundle("b8", cpu=work)


def pauses(built: ClusterBuilder, broker: str) -> None:
    """The broker's bundles stay there, and nobody uses them."""
    built.brokers[broker]["cpu_usage"] = 2.0
    for row in (built.brokers[broker], *(row for row in built.bundles if row["broker"] == broker)):
        row |= NO_TRAFFIC


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

    def test_one_that_got_less_than_expected_is_filled_again(self) -> None:
        """What arrives there costs half of what it was thought to."""
        built = based(0, 50, 50, 50, 0)
        for _ in range(8):
            for move in moves(built.round()):
                carry_out(built, move)
                if move.target == "b3":
                    take_along(built, move, -1.25)
            built.later()
        assert used(built)[3] >= 0.8 * np.mean(used(built))

    @pytest.mark.parametrize(
        ("base", "work", "old", "new"), [(0, 20, 3, 2), (5, 20, 3, 1), (12, 8, 6, 2), (0, 15, 10, 1), (5, 20, 8, 1)]
    )
    @pytest.mark.parametrize("unlike", [0.0, 0.4])
    def test_an_empty_broker_of_a_lightly_used_cluster_is_filled(
        self, base: float, work: float, old: int, new: int, unlike: float
    ) -> None:
        """Also where the others use as much as each other with unlike traffic, so that their CPU does not follow it."""
        built = based(base, *[work * (1 - unlike * (at % 3) / 2) for at in range(old)], *[0.0] * new)
        for at in range(old):
            built.brokers[f"b{at}"]["cpu_usage"] = base + work
        lived(built, 2 * PATIENCE)
        share = work * old / (old + new)
        assert min(used(built)[old:]) - base >= min(0.6 * share, share - 4)

    @pytest.mark.parametrize(
        "unlike", [[13, 0, 0, 0, 0, 0, 0, 0], [0, 12, 3, 9, 6, 1, 11, 5], [-8, -4, 0, 4, 8, 0, 0, 0]]
    )
    @pytest.mark.parametrize("back", [0, 2])
    def test_it_is_filled_beside_brokers_that_use_unlike_amounts(self, unlike: list[int], back: int) -> None:
        """For other things than bundles, or as their bundles are dearer. `back`: bundles that it has already."""
        built = based(0, *[12.0] * 8, 0.0)
        for at, more in enumerate(unlike):
            built.brokers[f"b{at}"]["cpu_usage"] += more
        for row in built.bundles[:back]:
            give(built, row, "b8")
        lived(built, 2 * PATIENCE)
        assert used(built)[8] >= 6

    @pytest.mark.parametrize(("work", "parts"), [(18.0, 6), (15.0, 20), (10.0, 10)])
    def test_a_broker_whose_bundles_pause_is_not_filled_with_others(self, work: float, parts: int) -> None:
        built = based(2, *[work] * 8, parts=parts)
        lived(built, 3)
        pauses(built, "b0")
        assert not [move for result in lived(built, 3 * PATIENCE) for move in moves(result)]

    def test_a_broker_whose_one_large_bundle_pauses_is_not_filled_with_others(self) -> None:
        built = beside_eight(2, 60)
        lived(built, 3)
        pauses(built, "b8")
        assert not [move for result in lived(built, 3 * PATIENCE) for move in moves(result)]

    def test_a_broker_that_was_drained_or_has_restarted_is_filled_though_it_has_worked_before(self) -> None:
        for restarted in (False, True):
            built = based(2, *[12.0] * 8)
            lived(built, 2)
            for row in (row for row in built.bundles if row["broker"] == "b0"):
                give(built, row, "b1")
            built.broker("b0", cpu=2.0, drained=not restarted, incarnation=1 + restarted)
            lived(built, 2)
            built.broker("b0", cpu=2.0, incarnation=1 + restarted)
            assert {move.target for result in lived(built, 3 * PATIENCE) for move in moves(result)} == {"b0"}

    @pytest.mark.parametrize(("work", "parts"), [(12.0, 20), (18.0, 20), (6.0, 20), (12.0, 4)])
    @pytest.mark.parametrize("unused", [0, 1])
    def test_a_broker_with_one_hot_bundle_and_a_newcomer_with_an_unused_one_change_nothing(
        self, work: float, parts: int, unused: int
    ) -> None:
        built = based(1, *[work] * 7, parts=parts)
        broker(built, "b7", 1, work)
        built.bundle("b7", cpu=work)
        broker(built, "b8", 1, 0)
        for _ in range(unused):
            built.bundle("b8", cpu=0)
        lived(built, 3 * PATIENCE)
        assert used(built)[8] >= 0.5 * work

    def test_a_paused_broker_that_misses_a_report_is_not_filled_with_others(self) -> None:
        built = beside_eight(2, 60)
        lived(built, PATIENCE)
        pauses(built, "b8")
        lived(built, 2)
        built.brokers["b8"]["reports"] = 0
        assert not moves(built.round())
        built.later()
        built.brokers["b8"]["reports"] = 12
        assert not [move for result in lived(built, 3 * PATIENCE) for move in moves(result)]

    def test_a_newcomer_that_was_busy_for_a_minute_is_filled(self) -> None:
        built = beside_eight(1, 8)
        lived(built, 1)
        pauses(built, "b8")
        lived(built, 3 * PATIENCE)
        assert used(built)[8] >= 6

    @pytest.mark.parametrize("bases", [[5, 9, 12, 14, 18, 22, 25], [25, 5, 14, 9, 18, 22, 12]])
    @pytest.mark.parametrize("carry", [3, 4, 5])
    def test_where_all_idle_brokers_without_bundles_stay_empty(self, bases: list[float], carry: int) -> None:
        built = based(0, *[0.3] * carry, *[0.0] * (len(bases) - carry))
        for at, base in enumerate(bases):
            built.brokers[f"b{at}"]["cpu_usage"] += base
        assert not [move for result in lived(built, 3 * PATIENCE) for move in moves(result)]

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
        mean = np.mean(used(built))
        assert max(used(built)) <= mean + 0.25 * max(mean, 100 * LEAST_LEVEL)
        assert Reason.EXTERNAL_LOAD not in told(results)

    def test_the_base_of_an_empty_broker_is_known_when_it_is_filled(self) -> None:
        """With the base in what a bundle seems to cost, the first moves would bring half of what was meant."""
        built = based(30, 30, 30, 30, 0, parts=25)
        results = lived(built, 4)
        assert {move.target for move in moves(results[0])} == {"b3"}
        assert used(built)[3] >= 0.88 * np.mean(used(built))

    def test_a_quiet_cluster_of_bases_moves_nothing_and_blames_nobody(self) -> None:
        built = based(12.5, 0, 0, 0, 0)
        for at, name in enumerate(built.brokers):
            built.brokers[name]["cpu_usage"] += at
        results = lived(built, 10)
        assert not [move for result in results for move in moves(result)]
        assert Reason.EXTERNAL_LOAD not in told(results)


class TestLearned:
    @pytest.mark.parametrize("base", [0.0, 12.5, 25.0])
    def test_brokers_without_traffic_show_the_base_of_all(self, base: float) -> None:
        model = UsageModel()
        for _ in range(4):
            model, estimates = observe(model, based(base, 50, 50, 0, 0).snapshot().frame, grace_ms=0)
        bases = estimates.broker("cpu_base") / 1000
        assert bases[2:] == pytest.approx([base, base], abs=1.5)
        assert bases[:2] == pytest.approx([base, base], abs=6)

    def test_without_traffic_a_load_is_a_base_however_large(self) -> None:
        built = based(10, 50, 50, 0)
        built.brokers["b2"]["cpu_usage"] = 80.0
        _, estimates = observe(UsageModel(), built.snapshot().frame, grace_ms=0)
        assert estimates.broker("cpu_base")[2] / 1000 == pytest.approx(80, abs=4)

    def test_bundles_of_a_broker_with_little_traffic_cost_their_traffic_only(self) -> None:
        snapshot = based(25, 50, 50, 2).snapshot()
        _, estimates = observe(UsageModel(), snapshot.frame, grace_ms=0)
        mine, theirs = (estimates.bundle("cpu_cost")[snapshot.bundles_of(broker)].sum() for broker in (2, 0))
        assert mine / theirs == pytest.approx(2 / 50, rel=0.5)


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
        assert skip.evidence["base"] == pytest.approx(6000, abs=100)
        assert skip.evidence["mean"] == pytest.approx(3000, abs=250), "the others' level is what they can share"

    def test_it_gives_what_bundles_it_has(self) -> None:
        """A broker beside something else got what a dead one had owned, and stayed full."""
        built = self._warming_up()
        lived(built, 3)
        for _ in range(20):
            built.bundle("b3", cpu=2.0)
        arrived = built.brokers["b3"]
        arrived["cpu_usage"] += 40.0
        for name, value in built.bundles[-1].items():
            if name in NO_TRAFFIC:
                arrived[name] += 20 * value
        results = lived(built, 12)
        assert used(built)[3] < 70.0
        assert {move.source for result in results for move in moves(result)} == {"b3"}
        assert max(used(built)) == used(built)[3]

    def test_who_is_full_may_have_bundles_that_cost_a_multiple_of_others(self) -> None:
        """Nobody can tell that from something else that keeps it busy, until some have left."""
        built = based(0, 10, *[35.0] * 4)
        built.brokers["b0"]["cpu_usage"] += 80.0
        for number in range(12):
            for move in moves(built.round()):
                carry_out(built, move)
                if move.source == "b0":
                    take_along(built, move, 4.0)
            built.later()
            assert max(used(built)[1:]) < 70.0, number
        assert max(used(built)) < 60.0

    def test_no_bundle_is_split_for_what_is_not_its_load(self) -> None:
        """To blame the bundles makes each of a few look too big for any broker."""
        built = based(0, 45, 45, 45, 6, parts=2)
        built.brokers["b3"]["cpu_usage"] += 88.0
        for _ in range(20):
            result = built.round()
            assert not splits(result)
            built.later()

    def test_below_the_threshold_it_gives_once_that_has_lasted(self) -> None:
        """A process that warms up, or a job of ten minutes, is over before it pays. Until then it gives a bundle or
        two, to learn whether its bundles keep it busy."""
        built = based(0, 30, 30, 30, 10)
        built.brokers["b3"]["cpu_usage"] += 60.0
        quiet, busy = lived(built, OCCUPIED_FOR - 1), lived(built, 8)
        assert len([move for result in quiet for move in moves(result)]) <= PROBES
        assert {move.source for result in busy for move in moves(result)} == {"b3"}

    def test_it_is_filled_as_soon_as_the_base_falls(self) -> None:
        built = self._warming_up()
        lived(built, 3)
        built.brokers["b3"]["cpu_usage"] = 5.0
        assert not moves(built.round()), "one reading may be wrong"
        assert {move.target for move in moves(built.later().round())} == {"b3"}

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
