"""Strategy `steady` and what is over before a move would pay: spikes of a broker's usage, pauses of bundles, clients
that take a minute or two to come back after a move."""

from __future__ import annotations

import pytest

from benchmarks.published.case import NO_TRAFFIC, carry_out
from benchmarks.published.clusters import MESSAGES_A_POINT, ClusterBuilder, loads, moves
from controller.domain.decision import Decision
from controller.domain.settings.policy import PolicySettings
from controller.policy.round import replay_round


def balanced(brokers: int = 5) -> ClusterBuilder:
    """Brokers at 40 %, 20 bundles each."""
    built = loads(*[40.0] * brokers, parts=20)
    built.settings = PolicySettings(strategy="steady")
    return built


def lived(built: ClusterBuilder, rounds: int, **busy: float) -> list[Decision]:
    """The moves of some rounds, all carried out, while these brokers use so much more for nothing."""
    for name, more in busy.items():
        built.brokers[name]["cpu_usage"] += more
    found = []
    for _ in range(rounds):
        chosen = moves(built.round())
        for move in chosen:
            carry_out(built, move)
        found += chosen
        built.later()
    for name, more in busy.items():
        built.brokers[name]["cpu_usage"] -= more
    return found


def spiked(built: ClusterBuilder, *brokers: str, rounds: int = 1) -> list[list[Decision]]:
    """The moves of one spike after the other, with a quarter of an hour between them."""
    lived(built, 6)
    found = []
    for broker in brokers:
        found.append(lived(built, rounds, **{broker: 58.0}))
        lived(built, 15)
    return found


class TestSpikes:
    def test_a_broker_that_is_full_for_a_minute_now_and_then_is_left_alone_from_the_third_time_on(self) -> None:
        first, _, *later = spiked(balanced(), *["b1"] * 5)
        assert first, "nobody could know"
        assert later == [[], [], []]

    def test_it_is_told_what_is_not_expected_to_last(self) -> None:
        built = balanced()
        spiked(built, "b1", "b1")
        built.brokers["b1"]["cpu_usage"] += 58.0
        (skip,) = [d for d in built.round().decisions if d.source == "b1"]
        assert skip.evidence["passing"] > 4_000

    def test_what_lasts_longer_than_its_spikes_is_relieved(self) -> None:
        built = balanced()
        spiked(built, "b1", "b1", "b1")
        assert not lived(built, 1, b1=58.0)
        built.brokers["b1"]["cpu_usage"] += 58.0
        assert {move.source for move in lived(built, 2)} == {"b1"}

    def test_spikes_of_two_minutes_are_known_as_such(self) -> None:
        *_, last = spiked(balanced(), *["b1"] * 4, rounds=2)
        assert not last

    def test_many_spikes_of_some_brokers_warn_of_those_of_others(self) -> None:
        *_, last = spiked(balanced(), "b0", "b1", "b2", "b3", "b4")
        assert not last

    def test_two_spikes_of_others_say_nothing(self) -> None:
        *_, last = spiked(balanced(12), "b0", "b1", "b2")
        assert last

    def test_small_rises_are_no_spikes(self) -> None:
        """Noise of readings makes some. Brokers that had them waited with each real rise."""
        built = balanced()
        lived(built, 6)
        for _ in range(5):
            lived(built, 1, b1=20.0)
            lived(built, 10)
        assert lived(built, 1, b1=58.0)

    def test_spikes_are_forgotten(self) -> None:
        built = balanced()
        spiked(built, "b1", "b1")
        lived(built, 130)
        assert lived(built, 1, b1=58.0)


class TestClientsThatComeBack:
    @pytest.mark.parametrize("rounds", [1, 2])
    def test_a_target_is_not_filled_again_while_they_do(self, rounds: int) -> None:
        """What moved carries nothing for a minute or two. Its target looked as empty as before, and got more."""
        quick, slow = (self._join(gone) for gone in (0, rounds))
        assert len(slow) <= len(quick) + 2

    def _join(self, gone: int) -> list[Decision]:
        """The moves of ten rounds after a broker joined; what has moved carries nothing for so many rounds."""
        built = balanced(8).broker("b8", cpu=0.0)
        found: list[Decision] = []
        back: dict[int, list[tuple[str, dict[str, float]]]] = {}
        for number in range(10):
            for move in moves(built.round()):
                carry_out(built, move)
                found.append(move)
                if gone:
                    back.setdefault(number + gone, []).append((str(move.bundle), _silence(built, str(move.bundle))))
            for bundle, traffic in back.pop(number, []):
                _add(built, bundle, traffic, 1.0)
            built.later()
        return found


def _silence(built: ClusterBuilder, bundle: str) -> dict[str, float]:
    """Take away the traffic of a bundle, with its CPU; returns it."""
    row = next(row for row in built.bundles if row["bundle"] == bundle)
    traffic = {name: row[name] for name in NO_TRAFFIC}
    _add(built, bundle, traffic, -1.0)
    return traffic


def _add(built: ClusterBuilder, bundle: str, traffic: dict[str, float], sign: float) -> None:
    row = next(row for row in built.bundles if row["bundle"] == bundle)
    broker = built.brokers[row["broker"]]
    broker["cpu_usage"] += sign * (traffic["msg_rate_in"] + traffic["msg_rate_out"]) / MESSAGES_A_POINT
    for name, value in traffic.items():
        row[name] += sign * value
        broker[name] = max(0.0, broker[name] + sign * value)


def ran_job(built: ClusterBuilder, factor: float, hot: float = 0.0) -> list[Decision]:
    """The moves of twelve minutes. For three of them a job multiplies the load of b0's first six bundles by `factor`,
    and its last bundle carries `hot` points more. The job does not end where something was moved."""
    found = lived(built, 6)
    more = start_job(built, factor)
    if hot:
        other = built.bundles[9]
        points = (other["msg_rate_in"] + other["msg_rate_out"]) / MESSAGES_A_POINT
        _add(built, other["bundle"], {name: other[name] for name in NO_TRAFFIC}, hot / points)
    found += lived(built, 3)
    if not found:
        for bundle, traffic in more.items():
            _add(built, bundle, traffic, -1.0)
        found += lived(built, 3)
    return found


def start_job(built: ClusterBuilder, factor: float) -> dict[str, dict[str, float]]:
    """What b0's first six bundles carry from now on beyond their usual traffic."""
    more = {row["bundle"]: {name: (factor - 1) * row[name] for name in NO_TRAFFIC} for row in built.bundles[:6]}
    for bundle, traffic in more.items():
        _add(built, bundle, traffic, 1.0)
    return more


class TestJobsOverTheThreshold:
    """Four brokers at 60 %. A job that has taken its broker to 82 % three times is known; then it takes it to 92 %."""

    @staticmethod
    def known() -> ClusterBuilder:
        built = loads(60.0, 60.0, 60.0, 60.0)
        built.settings = PolicySettings(strategy="steady")
        assert [ran_job(built, 1.6) for _ in range(3)] == [[], [], []]
        return built

    def test_one_that_is_known_is_left_alone_even_there(self) -> None:
        assert ran_job(self.known(), 1.9) == []

    def test_a_round_that_leaves_it_alone_can_be_replayed(self) -> None:
        built = self.known().with_settings(shed={"overloaded_threshold": 0.75})
        lived(built, 6)
        start_job(built, 1.6)
        result = built.round()
        assert replay_round(result.inputs) == result.plan_hash

    def test_one_that_nobody_knows_is_relieved_at_once(self) -> None:
        built = loads(60.0, 60.0, 60.0, 60.0)
        built.settings = PolicySettings(strategy="steady")
        lived(built, 12)
        assert ran_job(built, 1.9)

    def test_a_bundle_that_gets_hot_beside_it_is_no_job(self) -> None:
        found = ran_job(self.known(), 1.6, hot=30.0)
        assert found
        assert found[0].source == "b0"
