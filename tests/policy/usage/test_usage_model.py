"""What the usage model learns of drivers, brokers and bundles, on clusters whose true costs are known here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.published.clusters import ClusterBuilder, bundle_name, cluster
from controller.domain.load import RESOURCES
from controller.policy.usage.bursts import PATIENCE
from controller.policy.usage.figures import Figure
from controller.policy.usage.lesson import RISE_PATIENCE, Parts, Taught
from controller.policy.usage.model import FACTOR_SPREAD, UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.estimates import Estimates

CPU = RESOURCES.index("cpu")
POINT = 1000  # thousandths of a percent of a core


class World:
    """Brokers of one core; every bundle has points of traffic and a factor of its own on what they cost."""

    def __init__(self, held: dict[str, list[float]], base: float = 0.0) -> None:
        self.traffic = [points for bundles in held.values() for points in bundles]
        self.owner = [name for name, bundles in held.items() for _ in bundles]
        self.factor = [1.0] * len(self.traffic)
        self.base = dict.fromkeys(held, base)
        self.speed = dict.fromkeys(held, 1.0)
        self.incarnation = dict.fromkeys(held, 1)
        self.stale: dict[str, float] = {}  # broker -> what it reports instead of its CPU
        self.model = UsageModel()
        self.at_ms = 0
        self.interval_ms = 60_000

    def cpu(self, broker: str) -> float:
        work = zip(self.owner, self.traffic, self.factor, strict=True)
        return self.base[broker] + self.speed[broker] * sum(t * f for owner, t, f in work if owner == broker)

    def round(self, by_traffic: bool = False, figures: dict[str, Figure] | None = None) -> Estimates:
        built: ClusterBuilder = cluster()
        for name in self.base:
            points = sum(t for owner, t in zip(self.owner, self.traffic, strict=True) if owner == name)
            built.broker(name, cpu=points, incarnation=self.incarnation[name])
            built.brokers[name]["cpu_usage"] = self.stale.get(name, min(self.cpu(name), 100.0))
        for points, owner in zip(self.traffic, self.owner, strict=True):
            built.bundle(owner, cpu=points)
        frame = built.later(self.at_ms).snapshot().frame
        self.model, estimates = observe(self.model, frame, by_traffic, figures or {}, grace_ms=0)
        self.at_ms += self.interval_ms
        return estimates

    def rounds(self, number: int) -> Estimates:
        for _ in range(number):
            estimates = self.round()
        return estimates

    def cost(self, bundle: int) -> float:
        """What the model takes a bundle's factor for."""
        return float(self.model.bundles.factor[self.model.bundles.names.index(bundle_name(bundle))])

    def doubt(self, bundle: int) -> float:
        return float(self.model.bundles.variance[self.model.bundles.names.index(bundle_name(bundle))])


def even(brokers: int = 6, bundles: int = 8, points: float = 5.0, base: float = 0.0) -> World:
    return World({f"b{at}": [points] * bundles for at in range(brokers)}, base)


def test_an_expensive_bundle_shows_when_it_moves() -> None:
    world = even()
    world.factor[0] = 2.0
    world.rounds(3)
    assert world.cost(0) == pytest.approx(world.cost(1)), "nothing tells it from its neighbours yet"
    world.owner[0] = "b5"
    world.rounds(2)
    assert world.cost(0) > 1.4 * world.cost(1)


def test_seeing_the_same_again_teaches_nothing_of_the_parts() -> None:
    world = even()
    world.round()
    first = world.doubt(0)
    estimates = world.rounds(40)
    assert world.doubt(0) > 0.9 * first
    assert first < FACTOR_SPREAD**2
    assert estimates.broker("cpu_error")[0] < 0.02 * 40 * POINT, "but the sum is known"


def test_a_change_of_traffic_tells_bundles_apart() -> None:
    world = even()
    world.factor[0] = 2.0
    world.rounds(3)
    world.traffic[0] *= 1.3
    world.rounds(2)
    assert world.cost(0) > 1.05 * world.cost(1)


def test_a_reading_of_the_time_before_a_change_is_believed_by_half() -> None:
    world = even()
    world.rounds(6)
    before = world.cpu("b0")
    world.traffic[:8] = [points * 2 for points in world.traffic[:8]]
    world.stale = {"b0": before}
    late = world.round().broker("cpu_used")[0]
    assert late > 1.4 * before * POINT, "its traffic says about as much as its old CPU"
    world.stale = {}
    assert world.rounds(2).broker("cpu_used")[0] == pytest.approx(world.cpu("b0") * POINT, rel=0.03)
    assert world.cost(0) == pytest.approx(1.0, abs=0.15), "and nobody takes its bundles for cheap"


def world_read_each_minute() -> tuple[World, float]:
    """A round every ten seconds, and the figure of b0 has come twice."""
    world = even()
    world.rounds(6)
    before = world.cpu("b0")
    world.interval_ms = 10_000
    world.stale = {"b0": 1.001 * before}
    world.rounds(2)
    return world, before


def test_what_is_read_once_a_minute_is_learned_when_it_shows_a_change() -> None:
    world, before = world_read_each_minute()
    world.traffic[:8] = [points * 2 for points in world.traffic[:8]]
    used = [world.round().broker("cpu_used")[0] for _ in range(2)]
    for mixed in (1.2, 1.5, 1.5, 1.5, 1.5, 1.8):  # an average of two figures, then a mean of both times, then another
        world.stale = {"b0": mixed * before}
        used.append(world.round().broker("cpu_used")[0])
    assert min(used) > 1.9 * before * POINT, "its traffic says so"
    assert max(used) - min(used) < 0.05 * before * POINT
    world.stale = {"b0": 1.6 * before}  # the first figure of the time after, and not what was expected
    assert world.rounds(3).broker("cpu_used")[0] == pytest.approx(1.6 * before * POINT, rel=0.1)


def test_an_idle_broker_whose_figure_did_not_change_is_learned_of_when_it_is_busy() -> None:
    world, before = world_read_each_minute()
    world.traffic[:8] = [points * 2 for points in world.traffic[:8]]
    world.factor[:8] = [0.6] * 8
    for number in range(8):
        world.stale = {"b0": world.cpu("b0") + 0.1 * number}  # from now on a figure of its own in each round
        used = world.round().broker("cpu_used")[0]
    assert used == pytest.approx(1.2 * before * POINT, rel=0.05)


@pytest.mark.parametrize("changes", [1, 39])
def test_an_old_figure_and_changes_without_end_are_believed_in_the_end(changes: int) -> None:
    world, before = world_read_each_minute()
    for number in range(40):
        if number < changes:
            world.traffic[:8] = [5.0 if number % 2 else 10.0] * 8
        estimates = world.round()
    assert estimates.broker("cpu_used")[0] == pytest.approx(before * POINT, rel=0.3)
    assert world.cost(0) < 0.8


def test_usage_that_a_change_of_traffic_does_not_explain_shows_a_round_later() -> None:
    world = even()
    world.rounds(6)
    world.traffic[0] *= 3
    world.factor[0] = 2.0
    world.round()
    assert world.rounds(3).broker("cpu_used")[0] == pytest.approx(world.cpu("b0") * POINT, rel=0.05)


def test_a_broker_that_became_slow_is_not_taken_for_an_idle_one_once_bundles_left_it() -> None:
    world = even()
    world.rounds(6)
    world.speed["b0"] = 2.0
    world.round()
    world.owner[:3] = ["b1", "b2", "b3"]
    used = world.round().broker("cpu_used")[0]
    assert used == pytest.approx(world.cpu("b0") * POINT, rel=0.1), "readings may be late, but this began before"


@pytest.mark.parametrize("full", [100.0, 98.0])
def test_usage_at_its_limit_lowers_nothing_and_makes_nothing_certain(full: float) -> None:
    world = even()
    world.rounds(3)
    before = world.cost(0), world.doubt(0)
    world.traffic[:8] = [20.0] * 8  # 160 points on b0, which reports 100 at most
    estimates = world.round()
    assert (world.cost(0), world.doubt(0)) == pytest.approx(before, rel=0.05)
    assert estimates.broker("cpu_used")[0] > 150 * POINT


def test_usage_at_its_limit_above_what_was_expected_makes_nothing_certain_either() -> None:
    world = even(bundles=19)
    world.rounds(4)
    world.stale["b0"] = 98.0  # or more: 95 are expected
    estimates = world.rounds(6)
    full, others = estimates.broker("cpu_error")[0], estimates.broker("cpu_error")[1:]
    assert (full > 1.5 * others).all()
    assert estimates.broker("cpu_used")[0] > 96 * POINT


def test_traffic_decides_what_costs_where_brokers_differ() -> None:
    world = even(brokers=8)
    for at in range(0, len(world.traffic), 3):
        world.traffic[at] = 12.0
    estimates = world.rounds(4)
    used = estimates.broker("cpu_used") / POINT
    assert used == pytest.approx([world.cpu(name) for name in world.base], rel=0.02)


def test_a_process_that_uses_cpu_beside_brokers_is_no_bundles_fault() -> None:
    world = even()
    world.rounds(4)
    world.base["b1"] = 30.0
    estimates = world.rounds(RISE_PATIENCE - 1)
    assert world.cost(8) == pytest.approx(1.0, abs=0.05), "it may be over in a minute"
    assert estimates.burst[1, CPU] == pytest.approx(30 * POINT, rel=0.1)
    world.rounds(3)
    for bundle in (8, 9, 10):  # they take along what they cost, and leave the rest behind
        world.owner[bundle] = f"b{bundle - 6}"
        world.rounds(2)
    assert world.model.brokers.base[1] > 8
    assert world.model.brokers.base[2] < 5


def held_back(world: World, *bases: float) -> list[bool]:
    """Whether most of b1's rise is held back, round by round, while it uses so many points for something else."""
    result = []
    for points in bases:
        world.base["b1"] = points
        result.append(bool(world.rounds(1).burst[1, CPU] > 10 * POINT))
    return result


@pytest.mark.parametrize(
    ("before", "then"),
    [
        ([], [(30, True), (30, False)]),
        ([], [(30, True), (22, True), (22, False)]),  # the window still has the end of a spike of a minute
        ([], [(22, True), (30, True), (30, False)]),  # it had the beginning
        ([30, 30, 30, 0, 0, 0, 0], [(30, True), (30, True), (30, True), (30, True), (30, False)]),  # it came and went
    ],
)
def test_a_rise_that_nothing_explains_is_believed_once_it_stays_as_it_is(
    before: list[float], then: list[tuple[float, bool]]
) -> None:
    world = even()
    world.rounds(4)
    held_back(world, *before)
    assert held_back(world, *(points for points, _ in then)) == [held for _, held in then]


def test_a_rise_after_a_fall_is_held_back() -> None:
    world = even()
    world.base["b1"] = 30.0
    world.rounds(6)
    assert held_back(world, 0.0, 60.0, 60.0) == [False, True, False]


def test_a_rise_that_is_seen_twice_within_a_minute_has_not_stayed() -> None:
    """An early round's window overlaps the one before, and a figure of Pulsar's brokers is told for a minute."""
    world = even()
    world.rounds(4)
    world.interval_ms = 10_000
    assert held_back(world, 30.0, 30.1, 30.0, 30.1) == [True, True, True, False]


def test_what_a_bundle_costs_while_its_clients_reconnect_is_not_what_it_costs() -> None:
    """Topics load and clients connect in the minute after a move."""
    world = even()
    world.rounds(8)
    world.owner[0], world.factor[0] = "b1", 5.0
    world.round()
    world.factor[0] = 1.0
    world.rounds(6)
    assert world.cost(0) == pytest.approx(world.cost(9), rel=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_traffic_that_is_not_believed_is_learned_as_cheap_once_it_has_lasted(seed: int) -> None:
    world, dice = even(), np.random.default_rng(seed)

    def read() -> Estimates:
        world.stale = {name: world.cpu(name) * (1 + 0.01 * dice.normal()) for name in world.base}
        return world.rounds(1)

    for _ in range(8):
        read()
    for bundle in range(8):
        world.traffic[bundle] *= 10
        world.factor[bundle] = 0.1
    costs = []
    for _ in range(PATIENCE):
        read()
        costs.append(world.cost(0))
    assert min(costs[:-1]) > 0.8 > costs[-1]


def test_a_slow_machine_shows_when_bundles_leave_it() -> None:
    world = even()
    world.rounds(4)
    world.speed["b1"] = 2.0
    world.rounds(PATIENCE)
    for bundle in range(8, 14):
        world.owner[bundle] = f"b{2 + bundle % 4}"
        world.rounds(2)
    speed = world.model.brokers.speed
    assert speed[1] > 1.2
    assert speed[2:] == pytest.approx(1.0, abs=0.15)


def test_work_there_is_little_of_explains_no_large_surprise() -> None:
    """A broker that begins to use 20 % for something else has a base, and is not eight times as slow."""
    world = even(points=0.25)
    world.rounds(4)
    world.base["b1"] = 20.0
    world.rounds(2 * PATIENCE)
    assert world.model.brokers.speed[1] < 1.5
    assert world.model.brokers.base[1] > 15


def test_no_lesson_makes_a_variance_negative() -> None:
    world = even()
    world.rounds(3)
    brokers, each = world.model.brokers, np.ones(6)
    taught = Taught(0 * each, 5 * each).brokers(replace(brokers, pinned=each), Parts(each, each, each), each, each)
    assert (taught.speed_variance >= 0).all()
    assert (taught.base_variance > 0).all()


def test_another_process_starts_with_what_all_have_in_common() -> None:
    world = even()
    world.rounds(4)
    world.base["b1"] = 30.0
    world.rounds(2 * PATIENCE)
    assert world.model.brokers.base[1] > 5
    world.base["b1"], world.incarnation["b1"] = 0.0, 2
    world.round()
    assert world.model.brokers.base[1] < 3


def test_brokers_that_come_and_go_keep_what_is_known_of_the_others() -> None:
    world = even()
    world.factor[40] = 2.0
    world.rounds(3)
    world.owner[40] = "b1"
    world.rounds(2)
    known = world.cost(40)
    assert known > 1.4
    for change in (lambda: world.base.update(a0=0.0), lambda: world.base.pop("b4")):
        _apply(world, change)
        world.round()
        assert world.cost(40) == pytest.approx(known, rel=0.1)


def test_the_order_of_rows_does_not_matter() -> None:
    one, other = even(), even()
    other.traffic.reverse()
    for world in (one, other):
        world.rounds(3)
    assert one.model.brokers.error == pytest.approx(other.model.brokers.error)


def test_wandering_is_told_from_noise() -> None:
    dice = np.random.default_rng(1)
    still, drifting = even(12), even(12)
    for _ in range(30):
        still.traffic = [5.0 * dice.uniform(0.95, 1.05) for _ in still.traffic]
        drifting.traffic = [t * np.exp(dice.normal(0, 0.08)) for t in drifting.traffic]
        quiet, restless = still.round(), drifting.round()
    assert restless.wander_permille >= 15
    assert quiet.wander_permille <= restless.wander_permille / 2


def test_a_surge_is_no_wandering() -> None:
    """A tenant's traffic triples once; balance that is kept up afterwards is not lost again before it pays."""
    dice = np.random.default_rng(1)
    world = even(12)
    rest = np.full(len(world.traffic), 5.0)
    found = []
    for number in range(30):
        rest[::8] = 5.0 if number < 20 else 15.0 * (1 + np.arange(12) % 3)
        world.traffic = (rest * dice.uniform(0.97, 1.03, len(rest))).tolist()
        found.append(world.round().wander_permille)
    assert max(found[20:]) <= found[19] + 10


def test_a_surge_that_passes_wipes_no_wandering_out() -> None:
    """Its steps there and back count as one large variance, and as a negative one."""
    dice = np.random.default_rng(2)
    world, found = even(12), []
    for number in range(40):
        world.traffic = [t * np.exp(dice.normal(0, 0.05)) for t in world.traffic]
        kept = list(world.traffic)
        if number == 30:
            world.traffic = [t * 1.3 if at % 16 < 8 else t for at, t in enumerate(kept)]
        found.append(world.round().wander_permille)
        world.traffic = kept
    assert min(found[31:]) >= 0.4 * found[29]
    assert max(found[30:]) <= 1.5 * found[29]


class TestQuietTimes:
    """Next to no traffic: what brokers use then is not what traffic costs."""

    def asleep(self, *bases: float) -> World:
        """Brokers with a hundredth of their traffic, and other things to do."""
        world = even(len(bases), points=0.05)
        world.base = dict(zip(world.base, bases, strict=True))
        world.rounds(10)
        return world

    def test_traffic_that_comes_is_soon_known_for_what_it_costs(self) -> None:
        world = self.asleep(20, 20, 20, 20, 20, 20)
        for _ in range(4):
            world.traffic = [points * 100 ** (1 / 4) for points in world.traffic]
            world.round()
        cost = float(world.rounds(1).bundle("cpu_cost")[0])
        assert cost < 2.0 * 5.0 * POINT, "it was thought to cost fifty times as much"

    def test_a_process_beside_an_idle_broker_does_not_make_it_slow(self) -> None:
        world = even(base=10)
        world.rounds(6)
        world.traffic = [points / 100 for points in world.traffic]
        world.rounds(6)
        world.base["b5"] = 50
        world.rounds(8)
        assert float(world.model.brokers.speed.max()) < 1.75
        assert float(world.model.brokers.base[5]) > 40

    def test_a_new_price_is_no_change_of_loads(self) -> None:
        world = World({f"b{at}": [0.01 * (at + 1)] * 8 for at in range(6)}, base=20)
        world.rounds(10)
        world.traffic = [points * 100 for points in world.traffic]
        world.rounds(PATIENCE + 1)
        found = [world.round().wander_permille for _ in range(8)]
        assert max(found) < 200, "traffic stood; only what it is known to cost fell"


def _apply(world: World, change: Callable[[], object]) -> None:
    change()
    for name in world.base:
        world.speed.setdefault(name, 1.0)
        world.incarnation.setdefault(name, 1)
    world.owner = [owner if owner in world.base else "b1" for owner in world.owner]


def test_after_a_shift_a_rise_is_seen_by_traffic_whatever_the_readings_say() -> None:
    world = World({"a": [10, 10, 10], "b": [10, 10, 10], "c": [10, 10, 10]}, base=4.0)
    world.rounds(8)
    learned = world.model
    world.stale = {"a": world.cpu("a")}
    world.base["c"] = 40.0  # something else runs there, which only its reading tells
    world.traffic[0] = world.traffic[1] = 25.0
    estimates = world.round(by_traffic=True)
    used = estimates.broker("cpu_used") / POINT
    assert used[0] == pytest.approx(world.cpu("a"), rel=0.2)
    assert used[2] == pytest.approx(world.cpu("c"), rel=0.1)
    of_a = learned.bundles.carrier == 0
    assert (world.model.bundles.factor[of_a] == learned.bundles.factor[of_a]).all()


def test_a_figure_of_a_minute_is_believed_once_it_is_of_the_time_after_a_change() -> None:
    """Rounds a minute apart; brokers tell the mean of a minute, which began before the change or was in the midst."""
    world = World({"a": [10, 10, 10], "b": [10, 10, 10], "c": [10, 10, 10]}, base=4.0)
    begin_ms = cluster().snapshot().frame.at_ms - 20_000  # figures come so long before a round
    for number in range(12):
        if number == 8:
            world.traffic[0] = world.traffic[1] = 25.0
        told = {name: Figure(world.cpu(name), begin_ms + world.at_ms) for name in "abc"}
        if number in (8, 9):
            told["a"] = told["a"]._replace(value=34.0 if number == 8 else 45.0)
        world.round(figures=told)
        if number in (8, 9):
            assert world.model.bundles.factor[0] == pytest.approx(1.0), "hot bundles are not taken for cheap"
    assert world.model.brokers.reading[0] == world.cpu("a")
    assert 0.8 < world.model.bundles.factor[0] < 1.0, "this figure is of the time after the change, and teaches"
