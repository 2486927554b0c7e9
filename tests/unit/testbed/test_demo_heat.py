"""The demo's skew can be relieved by whole bundles, however the broker's topics fall into bundles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.published.clusters import ClusterBuilder, cluster, moves
from controller.testbed.demo.workload import HOT_SHARE, TOPICS, base_rates, deliveries, heat_rates

BASE_PCT = 22.0  # what a broker of the demo has to do at the base rate
ROUND_MS = 10_000
POINT = {"msg_rate_in": 50, "msg_rate_out": 50, "throughput_in": 5e4, "throughput_out": 5e4}  # of CPU


def test_every_bundle_gets_the_same_share_whatever_it_holds() -> None:
    held = dict(zip((TOPICS[0], *TOPICS[64:66], TOPICS[90]), ("b0", "b1", "b1", "b1"), strict=True))
    base = dict.fromkeys(held, 2.0)
    rates = heat_rates(held, base, operations_per_s=300.0)
    by_bundle: Counter[str] = Counter()
    for topic, rate in rates.items():
        by_bundle[held[topic]] += (rate - base[topic]) * (1 + deliveries(topic))  # each is taken in, and delivered
    assert by_bundle == {"b0": pytest.approx(150.0), "b1": pytest.approx(150.0)}


def test_topics_differ_and_are_as_busy_on_average_as_said() -> None:
    rates = base_rates(brokers=4)
    assert sum(rates.values()) / len(rates) == pytest.approx(2.0, rel=0.02)
    assert max(rates.values()) == pytest.approx(3 * min(rates.values()))
    assert sum(base_rates(brokers=2).values()) == pytest.approx(sum(rates.values()) / 2), "fewer brokers, less to do"
    assert base_rates(brokers=9) == rates


def test_nothing_to_heat_heats_nothing() -> None:
    assert heat_rates({}, {}, 300.0) == {}


@pytest.mark.parametrize("bundles", range(5, 15))
@pytest.mark.parametrize(("strategy", "rounds", "above_mean"), [("headroom", 4, 10), ("steady", 6, 13)])
def test_the_hot_broker_is_relieved(strategy: str, rounds: int, above_mean: float, bundles: int) -> None:
    """Three calm rounds, then the heat. steady waits for four rounds, and with eight bundles a broker it stops twelve
    points above the mean: there no target could take another one and stay within its tolerance."""
    built = cluster(strategy=strategy)
    for number in range(4):
        built.broker(f"b{number}", cpu=BASE_PCT)
        for _ in range(bundles):
            built.bundle(f"b{number}", cpu=BASE_PCT / bundles)
    for _ in range(3):
        assert not moves(built.later(ROUND_MS).round())
    for row in [row for row in built.bundles if row["broker"] == "b0"]:
        heat(built, row, 100 * HOT_SHARE / bundles)
    for _ in range(rounds):
        carry_out(built)
    scores = [row["cpu_usage"] for row in built.brokers.values()]
    assert max(scores) < 85
    assert max(scores) < sum(scores) / 4 + above_mean, f"{bundles} bundles: {scores}"


def heat(built: ClusterBuilder, row: dict[str, Any], points: float) -> None:
    """So many points more for one bundle, and for its broker."""
    held = built.brokers[row["broker"]]
    held["cpu_usage"] += points
    for name, per_point in POINT.items():
        row[name] += points * per_point
        held[name] += points * per_point


def carry_out(built: ClusterBuilder) -> None:
    """A round, and what it moves moved: the next one sees the bundles and their load elsewhere."""
    found = moves(built.later(ROUND_MS).round())
    rows = {row["bundle"]: row for row in built.bundles}
    for move in found:
        assert move.bundle is not None
        assert move.target is not None
        row = rows[move.bundle]
        points = row["msg_rate_in"] / 50
        for broker, change in ((row["broker"], -points), (move.target, points)):
            built.brokers[broker]["cpu_usage"] += change
            for name, per_point in POINT.items():
                built.brokers[broker][name] += change * per_point
        row["broker"] = move.target
        held = built.state.bundles[move.bundle]
        built.state.bundles[move.bundle] = type(held)(
            held.bundle, held.state, held.epoch + 1, by=built.state.brokers[move.target].session, ever_owned=True,
            moved_at_ms=built.at_ms,
        )  # fmt: skip
