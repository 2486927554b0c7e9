"""Strategy `steady` where brokers are full of different things: what one lacks another has."""

from __future__ import annotations

from benchmarks.published.clusters import ClusterBuilder, moves
from controller.domain.decision import Reason
from controller.domain.settings.policy import PolicySettings
from tests.policy.strategies.test_steady import live

NIC = 10_000_000.0  # bytes/s each way
OF_CPU = {"throughput_in": 9_000.0, "throughput_out": 9_000.0}  # in small messages
OF_NETWORK = {"throughput_in": 100_000.0, "throughput_out": 900_000.0}


def crossed(pairs: int, parts: int = 10) -> ClusterBuilder:
    """So many brokers at 90 % of their CPU, and as many at 90 % of their network."""
    built = ClusterBuilder(settings=PolicySettings(strategy="steady"))
    for at in range(2 * pairs):
        cpu, traffic = (90.0, OF_CPU) if at < pairs else (0.0, OF_NETWORK)
        built.broker(f"b{at}", cpu=cpu, **{name: parts * value for name, value in traffic.items()})
        row = built.brokers[f"b{at}"]
        for way in ("in", "out"):
            row |= {f"bandwidth_{way}_limit": NIC, f"bandwidth_{way}_usage": row[f"throughput_{way}"]}
        row["cpu_usage"] = cpu or 3.0
        for _ in range(parts):
            built.bundle(f"b{at}", cpu=cpu / parts, **traffic)
    return built


def worst(built: ClusterBuilder) -> list[float]:
    """The fullest resource of each broker, in percent."""
    return [
        max(row["cpu_usage"], *(100 * row[f"bandwidth_{way}_usage"] / NIC for way in ("in", "out")))
        for row in built.brokers.values()
    ]


def test_brokers_that_are_full_of_different_things_help_each_other() -> None:
    """All are above the level, and none was a target: they stayed full for hours."""
    for pairs in (1, 3):
        built = crossed(pairs)
        assert min(worst(built)) == 90.0
        assert max(worst(live(built, 10))) < 65.0, pairs


def test_they_give_away_what_they_are_full_of() -> None:
    built = crossed(2)
    for move in moves(built.round()):
        row = next(row for row in built.bundles if row["bundle"] == move.bundle)
        wanted = OF_NETWORK if move.source in ("b2", "b3") else OF_CPU
        assert row["throughput_out"] == wanted["throughput_out"]


def test_a_broker_that_is_full_of_the_same_is_no_target() -> None:
    built = crossed(2)
    full_of = {"b0": "cpu", "b1": "cpu", "b2": "network", "b3": "network"}
    chosen = moves(built.round())
    assert chosen
    assert all(full_of[str(move.source)] != full_of[str(move.target)] for move in chosen)


def test_without_anything_to_exchange_all_stay_as_they_are() -> None:
    built = crossed(2)
    for name in ("b0", "b1"):
        del built.brokers[name]
    built.bundles = [row for row in built.bundles if row["broker"] in built.brokers]
    result = built.round()
    assert not moves(result)
    assert Reason.UNDER_PROVISIONED in {decision.reason for decision in result.decisions}
