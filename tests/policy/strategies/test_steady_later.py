"""What `steady` leaves for later: what the next reading may show to be done already, and crumbs of brokers that are not
in danger.
"""

from __future__ import annotations

import pytest

from controller.policy.strategies.steady.model import Model
from tests.policy.strategies.test_steady_readings import Cluster, Line


def hottest_with_neighbours(*large: float) -> Cluster:
    """One broker, with these bundles besides smaller ones, far above five others."""
    return Cluster({"a:1": [*large, *[5.0] * 4, *[2.0] * 6, 3.0], **{f"{name}:1": [3.0] * 8 for name in "bcdef"}})


def cheapen(line: Line) -> None:
    """The two largest bundles seem to cost a fifth less than they do."""
    for report in line["brokers"].values():
        for name in {"t/ns/a:1-0", "t/ns/a:1-1"} & set(report["bundles"]):
            rates = report["bundles"][name]
            rates[:4] = [0.8 * rate for rate in rates[:4]]


def test_what_may_be_done_already_waits_for_the_next_reading() -> None:
    """Whether a third bundle must follow depends on what the two cost, which nobody knows."""
    cluster = hottest_with_neighbours(11.0, 11.0)
    cluster.play(1, cheapen)
    assert [cluster.cost[str(move.bundle)] for _, move in cluster.moved] == [11.0, 11.0]
    cluster.play(3, cheapen)
    assert cluster.used("a:1") == 33.0, "the rest is moved as soon as a reading shows that it is left to do"


def test_what_a_bundle_costs_in_bandwidth_is_known_and_waits_for_nothing() -> None:
    """Of traffic nothing has to be estimated, so the third bundle follows at once where bandwidth is what is short."""

    def bandwidth_is_short(line: Line) -> None:
        for report in line["brokers"].values():
            report["cpu"][0] *= 0.7
            report["bandwidthIn"][1] = report["bandwidthOut"][1] = 3.5e6

    cluster = hottest_with_neighbours(12.0, 10.0)
    cluster.play(1, bandwidth_is_short)
    assert [cluster.cost[str(move.bundle)] for _, move in cluster.moved] == [12.0, 10.0, 5.0]


def test_an_overloaded_broker_waits_for_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is known of what it gives away."""
    monkeypatch.setattr(Model, "doubt_of_moves", lambda *_: 1.0)
    cluster = hottest_with_neighbours(*[14.0] * 4)
    cluster.play(1)
    assert cluster.used("a:1") < 85


@pytest.mark.parametrize(("crumb", "moves_crumbs"), [(0.4, False), (0.7, False), (1.0, True)])
def test_a_broker_that_is_not_in_danger_keeps_its_crumbs_until_its_larger_bundles_are_free(
    crumb: float, moves_crumbs: bool
) -> None:
    """Two have taken large bundles just now; then four brokers join, all of which could be filled with crumbs."""
    cluster = Cluster({"a:1": [crumb] * 40, "b:1": [crumb] * 40, "x:1": [14.0] * 6})
    cluster.play(2)
    cluster.brokers += ["c:1", "d:1", "e:1", "f:1"]
    cluster.play(8)
    assert any(cluster.cost[str(move.bundle)] == crumb for _, move in cluster.moved) is moves_crumbs
    cluster.play(40)
    assert min(map(cluster.used, cluster.brokers)) > 10, "none of them stays empty"
