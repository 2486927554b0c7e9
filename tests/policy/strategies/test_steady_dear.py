"""Strategy `steady` and brokers kept busy by dear bundles, or by something else: only a move tells them apart."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.published.case import carry_out
from benchmarks.published.clusters import ClusterBuilder, cluster, moves
from controller.domain.decision import Decision
from controller.policy.strategies.steady.timing import OCCUPIED_FOR, PROBED_AFTER, PROBES
from controller.policy.usage.observe import observe

WORK, PARTS, DEAR = 40.0, 20, 8.0


class Costs:
    """Six brokers. The bundles of b0 cost `busy` percent of CPU, `dear` times the usual for their traffic; others use
    `foreign` percent there. The rest use 40 %, each for 20 bundles."""

    def __init__(self, busy: float, dear: float = DEAR, foreign: float = 0.0) -> None:
        self.foreign = foreign
        self.built: ClusterBuilder = cluster(strategy="steady")
        self.times: dict[str, float] = {}
        self.points: dict[str, float] = {}
        sizes = np.random.default_rng(1).uniform(0.5, 1.5, PARTS)
        for at in range(6):
            work, times = (busy / dear, dear) if at == 0 else (WORK, 1.0)
            self.built.broker(f"b{at}", cpu=work)
            for size in sizes / sizes.sum() * work:
                self.built.bundle(f"b{at}", cpu=float(size))
                name = self.built.bundles[-1]["bundle"]
                self.times[name], self.points[name] = times, float(size)
        self.use()

    def use(self) -> None:
        """Every broker uses what its bundles cost."""
        for name, row in self.built.brokers.items():
            mine = [each["bundle"] for each in self.built.bundles if each["broker"] == name]
            load = sum(self.points[bundle] * self.times[bundle] for bundle in mine)
            row["cpu_usage"] = min(100.0, load + (self.foreign if name == "b0" else 0.0))

    def lived(self, rounds: int) -> list[list[Decision]]:
        """The moves of some rounds, all carried out."""
        found = []
        for _ in range(rounds):
            found.append(moves(self.built.round()))
            for move in found[-1]:
                carry_out(self.built, move)
            self.use()
            self.built.later()
        return found

    @property
    def highest(self) -> float:
        """The highest usage, relative to the mean."""
        used = [float(row["cpu_usage"]) for row in self.built.brokers.values()]
        return max(used) / float(np.mean(used))


def test_what_bundles_took_with_them_tells_what_those_cost_that_stayed() -> None:
    """They were taken for external load until each of them had moved, fifteen rounds later."""
    world = Costs(busy=96.0)
    world.lived(4)
    assert world.highest < 1.15


@pytest.mark.parametrize("dear", [8.0, 12.0, 16.0])
def test_a_busy_broker_gives_a_bundle_or_two_to_learn_whether_bundles_keep_it_busy(dear: float) -> None:
    world = Costs(busy=72.0, dear=dear)
    found = world.lived(PROBED_AFTER + 8)
    assert sum(map(len, found[: PROBED_AFTER - 1])) == 0
    assert len(found[PROBED_AFTER - 1]) <= PROBES
    assert world.highest < 1.15


def test_if_they_do_not_it_is_left_alone_until_what_keeps_it_busy_has_lasted() -> None:
    world = Costs(busy=8.0, dear=1.0, foreign=62.0)
    found = world.lived(OCCUPIED_FOR - 1)
    assert sum(map(len, found)) <= PROBES


def test_load_of_others_that_ends_as_bundles_leave_makes_none_of_them_dear() -> None:
    world = Costs(busy=8.0, dear=1.0, foreign=90.0)
    (found,) = world.lived(1)
    assert found
    world.foreign = 0.0
    world.use()
    world.lived(3)
    frame = world.built.snapshot().frame
    _, estimates = observe(world.built.usage, frame, grace_ms=0)
    costs = dict(zip(frame.bundles, (estimates.bundle("cpu_cost") / 1000).tolist(), strict=True))
    assert sum(costs.values()) == pytest.approx(sum(world.points.values()), rel=0.1)
