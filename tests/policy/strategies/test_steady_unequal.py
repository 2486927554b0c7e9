"""Strategy `steady` where brokers are not alike: some may get nothing, pools overlap, a network's speed is unknown."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.published.clusters import ClusterBuilder, loads, moves
from controller.domain.reasons.words import describe_decision
from controller.domain.settings.placement import IsolationPolicy, PlacementSettings
from controller.domain.settings.policy import BrokerCaps, PolicySettings, ResourceWeights
from tests.policy.strategies.test_steady import live

SETTINGS = PolicySettings(strategy="steady")


def used(built: ClusterBuilder, *brokers: str) -> list[float]:
    return [built.brokers[name]["cpu_usage"] for name in brokers]


class TestBrokersThatGetNothing:
    """They are low, and stay so: what is missing there is no reason to leave the others uneven."""

    def cluster(self, most: int | None) -> ClusterBuilder:
        """Five small brokers that hold 40 bundles each, and seven that hold 20."""
        built = loads(*[10.0] * 5, parts=40)
        for at, percent in enumerate((82.0, 74.0, 66.0, 60.0, 56.0, 54.0, 52.0)):
            built.broker(f"c{at}", cpu=percent)
            for _ in range(20):
                built.bundle(f"c{at}", cpu=percent / 20)
        built.settings = replace(SETTINGS, caps=BrokerCaps(max_bundles=most))
        return built

    def test_the_others_are_balanced(self) -> None:
        built = live(self.cluster(most=40), 10)
        others = used(built, *(f"c{at}" for at in range(7)))
        assert max(others) < 70.0
        assert min(others) > 57.0

    def test_those_that_get_something_count_for_the_level(self) -> None:
        built = live(self.cluster(most=None), 10)
        assert max(used(built, *built.brokers)) < 55.0

    def test_where_nobody_may_get_anything_nothing_moves(self) -> None:
        built = self.cluster(most=10)
        assert not moves(built.round())


class TestPoolsThatOverlap:
    def cluster(self) -> ClusterBuilder:
        """Tenants n0 on b0 to b3 and n1 on b3 to b6: n0 needs more, and b0 is full."""
        built = ClusterBuilder(settings=SETTINGS)
        for at, percent in enumerate((90.0, 60.0, 60.0, 60.0, 15.0, 15.0, 15.0)):
            built.broker(f"b{at}", cpu=percent)
            for _ in range(10):
                built.bundle(f"b{at}", cpu=percent / 10, namespace="n0/ns" if at < 4 else "n1/ns")
        isolation = (
            IsolationPolicy(name="n0", namespaces=("n0/ns",), primary=("b[0-3].*",)),
            IsolationPolicy(name="n1", namespaces=("n1/ns",), primary=("b[3-6].*",)),
        )
        built.settings = replace(SETTINGS, placement=PlacementSettings(isolation=isolation))
        return built

    def test_a_full_broker_gives_to_those_that_are_above_the_level_as_well(self) -> None:
        built = self.cluster()
        chosen = moves(built.round())
        assert {move.source for move in chosen} == {"b0"}
        assert {move.target for move in chosen} <= {"b1", "b2", "b3"}

    def test_and_only_until_they_are_even(self) -> None:
        built = live(self.cluster(), 10)
        shared = used(built, "b0", "b1", "b2", "b3")
        assert max(shared) - min(shared) <= 9.0
        assert not moves(built.later().round())


class TestNetworksOfUnknownSpeed:
    """Of a virtual machine, as Linux has it: it sends and receives, and does not know how much it could."""

    def cluster(self, unknown: int, bytes_each_way: float = 2e6) -> ClusterBuilder:
        """Twelve brokers at 60 % of CPU, the last ones of unknown speed and at 10 %."""
        built = loads(*[60.0] * (12 - unknown), *[10.0] * unknown, parts=20)
        built.settings = SETTINGS
        for at, row in enumerate(built.brokers.values()):
            for way in ("in", "out"):
                row |= {f"bandwidth_{way}_usage": row[f"throughput_{way}"], f"bandwidth_{way}_limit": 2e7}
                if at >= 12 - unknown:
                    row[f"bandwidth_{way}_limit"] = float("nan")
        return built

    def test_they_get_their_share(self) -> None:
        built = live(self.cluster(unknown=4), 10)
        assert min(used(built, *built.brokers)) > 35.0

    def test_but_no_more_than_the_slowest_network_could_carry(self) -> None:
        """Its own bytes come to nine tenths of the slowest network that is known."""
        built = self.cluster(unknown=1)
        row = built.brokers["b11"]
        for way in ("in", "out"):
            row[f"bandwidth_{way}_usage"] = 1.8e7
        assert "b11" not in {move.target for move in moves(built.round())}


class TestBacklogs:
    def cluster(self, *late: int) -> ClusterBuilder:
        """b3 is at 25 %; so many of its bundles have not been read for ten minutes."""
        built = loads(90.0, 55.0, 55.0, 25.0, parts=10)
        built.settings = SETTINGS
        for at in late:
            row = built.bundles[30 + at]
            row["backlog_bytes"] = 600 * (row["throughput_in"] + row["throughput_out"])
            built.brokers["b3"]["backlog_bytes"] += row["backlog_bytes"]
        return built

    def test_a_subscription_that_nobody_reads_makes_no_broker_slow(self) -> None:
        for late in ((3,), (1, 4, 7)):
            assert "b3" in {move.target for move in moves(self.cluster(*late).round())}

    def test_a_broker_most_of_whose_bundles_fall_behind_gets_nothing_and_is_told_why(self) -> None:
        built = self.cluster(*range(8))
        result = built.round()
        assert "b3" not in {move.target for move in moves(result)}
        (skip,) = [d for d in result.decisions if d.source == "b3"]
        assert describe_decision(skip) == "the backlogs of its bundles have grown to 480 s of their traffic"

    def test_a_broker_without_traffic_is_not_slow(self) -> None:
        built = loads(90.0, 55.0, 55.0, 0.0, parts=10).bundle("b3", backlog_bytes=17_626.0)
        built.settings = SETTINGS
        built.brokers["b3"]["backlog_bytes"] = 17_626.0
        assert "b3" in {move.target for move in moves(built.round())}


def test_what_no_bundle_uses_hides_nothing() -> None:
    """The heap of a line of `ballast decide` fills up everywhere until garbage is collected: no move empties it."""
    built = loads(70.0, 30.0, 30.0, 30.0, 30.0, parts=12)
    built.settings = replace(SETTINGS, weights=ResourceWeights(memory=1.0))
    for row in built.brokers.values():
        row |= {"memory_usage": 90.0, "memory_limit": 100.0}
    assert {move.source for move in moves(built.round())} == {"b0"}
