"""Strategy `steady` and networks that carry more than the bytes of bundles: backups, replication, other processes."""

from __future__ import annotations

from benchmarks.published.case import carry_out
from benchmarks.published.clusters import ClusterBuilder, loads, moves
from controller.domain.decision import Decision, Reason
from controller.domain.settings.policy import PolicySettings

OWN = 0.2  # of each network, for bundles


def balanced(brokers: int = 5) -> ClusterBuilder:
    """Brokers at 40 % of their CPU and 20 % of their networks, 8 bundles each."""
    built = loads(*[40.0] * brokers, parts=8)
    built.settings = PolicySettings(strategy="steady")
    for row in built.brokers.values():
        for way in ("in", "out"):
            row[f"bandwidth_{way}_limit"] = row[f"throughput_{way}"] / OWN
    return built


def lived(built: ClusterBuilder, rounds: int, **foreign: float) -> list[Decision]:
    """The moves of some rounds, all carried out, while so much of these brokers' networks carries bytes of others."""
    found = []
    for _ in range(rounds):
        for name, row in built.brokers.items():
            for way in ("in", "out"):
                limit = row[f"bandwidth_{way}_limit"]
                row[f"bandwidth_{way}_usage"] = min(limit, row[f"throughput_{way}"] + foreign.get(name, 0.0) * limit)
        chosen = moves(built.round())
        for move in chosen:
            carry_out(built, move)
        found += chosen
        built.later()
    return found


def test_bytes_of_others_are_no_reason_to_move_a_bundle_before_they_have_lasted() -> None:
    """Its bundles use a fifth of that network: giving them all away brings little, and takes dozens of moves."""
    built = balanced()
    lived(built, 6)
    for _ in range(3):
        assert not lived(built, 10, b1=0.6)
        assert not lived(built, 10)


def test_a_network_that_others_keep_busy_gives_what_it_has_once_that_has_lasted() -> None:
    built = balanced()
    lived(built, 6)
    assert not lived(built, 15, b1=0.6)
    assert {move.source for move in lived(built, 5, b1=0.6)} == {"b1"}


def test_the_reason_says_so() -> None:
    built = balanced()
    lived(built, 6)
    lived(built, 1, b1=0.6)
    (skip,) = [d for d in built.round().decisions if d.source == "b1"]
    assert skip.reason is Reason.EXTERNAL_LOAD


def test_it_gets_nothing_meanwhile() -> None:
    built = balanced()
    lived(built, 6)
    lived(built, 1, b1=0.6)
    built.broker("b5", cpu=0.0)
    for way in ("in", "out"):
        built.brokers["b5"][f"bandwidth_{way}_limit"] = built.brokers["b0"][f"bandwidth_{way}_limit"]
    targets = {move.target for move in lived(built, 8, b1=0.6)}
    assert targets == {"b5"}


def test_a_full_network_is_relieved_at_once() -> None:
    built = balanced()
    lived(built, 6)
    assert {move.source for move in lived(built, 2, b1=0.75)} == {"b1"}


def test_one_that_is_full_for_a_minute_now_and_then_is_left_alone_from_the_third_time_on() -> None:
    built = balanced()
    lived(built, 6)
    found = []
    for _ in range(5):
        found.append(lived(built, 1, b1=0.75))
        lived(built, 15)
    first, _, *later = found
    assert first, "nobody could know"
    assert later == [[], [], []]


def test_what_lasts_longer_than_its_spikes_is_relieved() -> None:
    built = balanced()
    lived(built, 6)
    for _ in range(3):
        lived(built, 1, b1=0.75)
        lived(built, 15)
    assert not lived(built, 3, b1=0.75)
    assert {move.source for move in lived(built, 2, b1=0.75)} == {"b1"}


def test_what_replication_adds_goes_with_the_bundles() -> None:
    """All networks send three times the bytes of their bundles: that is no load of others."""
    built = loads(30.0, 60.0, 30.0, 30.0, 30.0, parts=12)
    built.settings = PolicySettings(strategy="steady")
    for row in built.brokers.values():
        row |= {"bandwidth_out_usage": 3 * row["throughput_out"], "bandwidth_out_limit": 12_000_000.0}
        row["cpu_usage"] /= 4
    assert {move.source for move in moves(built.round())} == {"b1"}
