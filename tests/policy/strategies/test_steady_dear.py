"""Strategy `steady` and brokers kept busy by dear bundles, or by something else: only a move tells them apart."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.published.case import carry_out
from benchmarks.published.clusters import ClusterBuilder, cluster, moves
from controller.domain.decision import Decision
from controller.policy.strategies.steady.timing import OCCUPIED_FOR, PROBED_AFTER, PROBES
from controller.policy.usage.departed import OTHERS, describe_evidence
from controller.policy.usage.observe import observe
from tests.policy.strategies.test_steady_base import give

WORK, PARTS, DEAR = 40.0, 20, 8.0


class Costs:
    """Six brokers. The bundles of b0 cost `busy` percent of CPU, `dear` times the usual for their traffic; others use
    `foreign` percent there. The rest use 40 %, each for 20 bundles."""

    def __init__(self, busy: float, dear: float = DEAR, foreign: float = 0.0, late: int = 0) -> None:
        """`late`: rounds after which a reading shows what is used."""
        self.foreign, self.late = foreign, late
        self.used: list[list[float]] = []
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
        load = {name: self.foreign if name == "b0" else 0.0 for name in self.built.brokers}
        for each in self.built.bundles:
            load[each["broker"]] += self.points[each["bundle"]] * self.times[each["bundle"]]
        self.used.append([min(100.0, used) for used in load.values()])
        shown = self.used[max(0, len(self.used) - 1 - self.late)]
        for row, used in zip(self.built.brokers.values(), shown, strict=True):
            row["cpu_usage"] = used

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
        return max(self.used[-1]) / float(np.mean(self.used[-1]))

    @property
    def evidence(self) -> int:
        """What is known of b0."""
        return int(describe_evidence(self.built.usage.brokers)[0])


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
    assert 1 <= len(found[PROBED_AFTER - 1]) <= PROBES
    assert world.highest < 1.15


@pytest.mark.parametrize("busy", [72.0, 96.0])
def test_a_reading_of_the_time_before_is_no_evidence_that_bundles_took_nothing(busy: float) -> None:
    """The fall came a round later, when nobody waited for it: the broker stayed 35 % above the others."""
    world = Costs(busy=busy, late=1)
    world.lived(PROBED_AFTER + 10)
    assert world.highest < 1.15


def test_a_reading_at_the_limit_is_none_either() -> None:
    world = Costs(busy=200.0)
    for _ in range(10):
        world.built.round()
        row = min((row for row in world.built.bundles if row["broker"] == "b0"), key=lambda row: row["msg_rate_in"])
        give(world.built, row, "b1")
        world.use()
        world.built.later()
    assert world.used[-1][0] == 100.0
    assert world.built.usage.brokers.blame[0] >= 0


def test_if_they_do_not_it_is_left_alone_until_what_keeps_it_busy_has_lasted() -> None:
    world = Costs(busy=8.0, dear=1.0, foreign=62.0)
    found = world.lived(OCCUPIED_FOR - 1)
    assert 1 <= sum(map(len, found)) <= PROBES


def test_what_is_known_of_others_ends_with_them() -> None:
    world = Costs(busy=8.0, dear=1.0, foreign=62.0)
    world.lived(2 * OCCUPIED_FOR)
    assert world.evidence == OTHERS
    world.foreign = 0.0
    world.use()
    world.lived(8)
    assert world.evidence == 0


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
