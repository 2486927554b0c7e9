"""Moves judged by what was read afterwards: on frames whose figures are known here, and on the field."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from controller.decide import session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.policy import PolicySettings
from controller.policy.usage.judged import FULL_END, NOT_YET, OTHER_TRAFFIC, RESTARTED, Judged, Move
from controller.policy.usage.realised import judge
from controller.policy.view.estimates import NETWORKS, Estimates
from controller.policy.view.frame import Frame
from controller.policy.view.snapshot import Snapshot
from controller.sim.field.cluster import Cluster
from controller.sim.field.observation import Observation, Observer
from controller.sim.field.play import play, player_of
from controller.sim.field.players import Moves, Player

CPU = RESOURCES.index("cpu")
LIMIT = 100_000  # one core, in thousandths of a percent
SCENARIOS = ("hot", "diurnal", "drift")
SEEDS = range(1, 4)


def frame(
    minute: int, owners: list[int], points: list[int], costs: list[int], usage: list[int], born: int = 1
) -> Frame:
    """Bundles of so many points of traffic; `costs` and `usage` in percent of a broker."""
    brokers, count = len(usage), len(owners)
    used = np.zeros((brokers, len(RESOURCES)), np.int64)
    used[:, CPU] = np.array(usage) * 1000
    fields = np.zeros((count, len(BUNDLE_FIELDS)), np.int64)
    fields[:, BUNDLE_FIELDS.index("throughput_in")] = np.array(points) * 1000
    seen = Frame.of(
        minute * 60_000, "active", tuple(f"broker-{at}" for at in range(brokers)),
        tuple(f"bundle-{at}" for at in range(count)), broker={"incarnation": born}, bundle={"owner": np.array(owners)},
        row={"bundle": np.arange(count), "reporter": np.array(owners)}, usage=used, limit=np.full_like(used, LIMIT),
        totals=np.zeros((brokers, len(BUNDLE_FIELDS)), np.int64), row_fields=fields, namespace_bundles={},
    )  # fmt: skip
    cost = np.array(costs) * 1000
    estimates = Estimates(
        np.tile([0, 0, 0, 1000], (brokers, 1)), np.zeros((brokers, len(RESOURCES)), np.int64),
        np.zeros((brokers, len(NETWORKS)), np.int64),
        np.column_stack([cost, cost // 5, np.full(count, 1000), np.zeros(count, np.int64)]),
    )  # fmt: skip
    return replace(seen, estimates=estimates)


def story(after: list[int], points: list[int] | None = None, rounds: int = 3, born: int = 1) -> list[Frame]:
    """Three rounds before bundle-0 leaves broker-0, in which it uses 60 %, and some after it; it is taken for 10 %."""
    costs = [10, 20, 30]
    before = [frame(at, [0, 0, 0], [10, 10, 10], costs, [60, 5]) for at in range(3)]
    later = [frame(3 + at, [1, 0, 0], points or [10, 10, 10], costs, after, born) for at in range(rounds)]
    return before + later


MOVE = Move(2, "bundle-0", "broker-0", "broker-1")


def test_both_ends_are_judged_by_what_was_read() -> None:
    source, target = judge(story([52, 14]), [MOVE])
    assert (source.broker, target.broker) == ("broker-0", "broker-1")
    assert (source.predicted, target.predicted) == (pytest.approx(-0.10), pytest.approx(0.10))
    assert (source.realised, target.realised) == (pytest.approx(-0.08), pytest.approx(0.09))
    assert source.inside
    assert target.inside


@pytest.mark.parametrize(("error_permille", "by_prior"), [(200, False), (260, False), (270, True), (350, True)])
def test_a_prediction_of_bundles_that_hardly_anything_tells_from_new_ones_is_the_prior(
    error_permille: int, by_prior: bool
) -> None:
    frames = story([52, 14])
    estimates = frames[2].estimates
    assert estimates is not None
    bundles = estimates.bundles.copy()
    bundles[:, 1] = bundles[:, 0] * error_permille // 1000
    frames[2] = replace(frames[2], estimates=replace(estimates, bundles=bundles))
    assert [end.by_prior for end in judge(frames, [MOVE])] == [by_prior, by_prior]


def test_traffic_of_bundles_that_stayed_is_no_effect_of_the_move() -> None:
    source, _ = judge(story([60, 15], points=[10, 15, 10]), [MOVE])
    assert source.realised == pytest.approx(-0.10)


def test_what_nobody_predicted_is_outside() -> None:
    source, _ = judge(story([30, 15]), [MOVE])
    assert source.realised == pytest.approx(-0.30)
    assert not source.inside


def test_moves_of_one_round_are_judged_together() -> None:
    frames = story([30, 35])
    frames[3:] = [frame(at, [1, 1, 0], [10, 10, 10], [10, 20, 30], [30, 35]) for at in range(3, 6)]
    source, target = judge(frames, [MOVE, replace(MOVE, bundle="bundle-1")])
    assert (source.predicted, source.realised, source.moves) == (pytest.approx(-0.30), pytest.approx(-0.30), 2)
    assert (target.predicted, target.realised) == (pytest.approx(0.30), pytest.approx(0.30))


def test_a_move_of_another_round_counts_as_estimated() -> None:
    frames = story([50, 15])
    frames[5] = frame(5, [1, 1, 0], [10, 10, 10], [10, 20, 30], [30, 35])
    alone, beside = judge(story([50, 15]), [MOVE])[0], judge(frames, [MOVE])[0]
    assert beside.realised == pytest.approx(-0.10)
    assert beside.half_width > alone.half_width


@pytest.mark.parametrize(
    ("frames", "why", "missing"),
    [
        (story([97, 14]), FULL_END, 0),
        (story([52, 14], born=2), RESTARTED, 0),
        (story([52, 14], rounds=1), NOT_YET, 2),
    ],
)
def test_what_cannot_be_judged_says_why(frames: list[Frame], why: str, missing: int) -> None:
    source = judge(frames, [MOVE])[0]
    assert (source.realised, source.why_not, source.missing) == (None, why, missing)
    assert source.predicted == pytest.approx(-0.10)
    assert source.half_width > 0
    assert not source.inside


def test_rounds_whose_averages_reach_back_before_the_move_are_passed_over() -> None:
    frames = story([58, 7], rounds=2) + [
        frame(at, [1, 0, 0], [10, 10, 10], [10, 20, 30], [50, 15]) for at in range(5, 8)
    ]
    source, _ = judge(frames, [MOVE], window_ms=2 * 60_000)
    assert source.realised == pytest.approx(-0.10)
    assert judge(frames[:6], [MOVE], window_ms=2 * 60_000)[0].missing == 2


def test_rounds_without_estimates_say_nothing() -> None:
    frames = [replace(each, estimates=None) for each in story([52, 14])]
    assert judge(frames, [MOVE]) == []


def test_bundles_that_stored_frames_do_not_name_count_at_the_average_cost() -> None:
    frames = []
    for at, each in enumerate(story([60, 15], points=[10, 15, 10])):
        totals = np.zeros((2, len(BUNDLE_FIELDS)), np.int64)
        totals[0, BUNDLE_FIELDS.index("throughput_in")] = 30_000 if at < 3 else 24_000  # the 20,000 that stayed grew
        assert each.estimates is not None
        brokers = np.tile([60_000, 0, 0, 1000], (2, 1))
        known = replace(each, totals=totals, estimates=replace(each.estimates, brokers=brokers))
        frames.append(known.select(np.array([at == 2, False, False])))
    source, _ = judge(frames, [MOVE])
    assert source.realised == pytest.approx(0.0 - 0.2 * 0.5)


def with_totals(frames: list[Frame], of_broker_0: list[int], work_pct: int) -> list[Frame]:
    """Of each frame, in bytes/s; `work_pct`: what the broker's usage is estimated at in the deciding round."""
    told = []
    for each, total in zip(frames, of_broker_0, strict=True):
        totals = np.zeros((2, len(BUNDLE_FIELDS)), np.int64)
        totals[0, BUNDLE_FIELDS.index("throughput_in")] = total
        assert each.estimates is not None
        brokers = np.tile([work_pct * 1000, 0, 0, 1000], (2, 1))
        told.append(replace(each, totals=totals, estimates=replace(each.estimates, brokers=brokers)))
    return told


def test_a_little_other_traffic_has_no_absurd_price() -> None:
    """All traffic of the deciding round is of named bundles, which cost less than the broker used."""
    frames = with_totals(story([60, 15]), [30_000] * 3 + [21_000] * 3, work_pct=69)
    source, _ = judge(frames, [MOVE])
    came = 1_000 * 3 * 0.69 / 30_000
    assert source.realised == pytest.approx(-0.10 + 0.10 - came)
    assert 0.06 < came < 0.07


def test_a_bundle_that_wakes_up_counts_at_what_traffic_costs_there() -> None:
    """It had hardly any traffic, so that its cost says nothing of how much more takes."""
    points = [10, 0, 20]
    before = [frame(at, [0, 0, 0], points, [10, 1, 30], [60, 5]) for at in range(3)]
    later = [frame(at, [1, 0, 0], [10, 5, 20], [10, 1, 30], [60, 15]) for at in range(3, 6)]
    for each in before:
        each.row_fields[1, BUNDLE_FIELDS.index("throughput_in")] = 10  # bytes/s
    frames = with_totals([*before, *later], [30_010] * 3 + [25_000] * 3, work_pct=60)
    source, _ = judge(frames, [MOVE])
    assert source.realised is not None
    assert abs(source.realised) < 0.5, "500 times its 1 % would be five brokers"


def test_more_other_traffic_than_there_was_tells_nothing_of_the_move() -> None:
    frames = with_totals(story([60, 15]), [30_000] * 3 + [60_000] * 3, work_pct=60)
    source, _ = judge(frames, [MOVE])
    assert (source.realised, source.why_not) == (None, OTHER_TRAFFIC)


class Watched:
    """Steady, its moves written down with the frame that they were decided on."""

    def __init__(self, cluster: Cluster, observer: Observer, frames: list[Frame], moves: list[Move]) -> None:
        self._player: Player = player_of("steady")(cluster, observer)
        self._cluster, self._observer, self._frames, self._moves = cluster, observer, frames, moves

    def decide(self, seen: Observation) -> Moves:
        moves = self._player.decide(seen)
        names, brokers = self._observer.bundle_names, self._observer.broker_names
        for bundle, target in moves:
            source = int(self._cluster.owner[bundle])
            if source != target:
                self._moves.append(Move(len(self._frames) - 1, names[bundle], brokers[source], brokers[target]))
        return moves


def test_nine_in_ten_moves_of_the_field_are_as_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where bundles' costs were learned, half of the intervals of moves that matter are narrower than half of what
    was predicted."""
    judged: list[Judged] = []
    clear: list[Judged] = []  # at least 5 % of the source
    count = 0
    make = session.from_frame
    for scenario in SCENARIOS:
        for seed in SEEDS:
            frames: list[Frame] = []
            moves: list[Move] = []

            def keep(seen: Frame, settings: PolicySettings, frames: list[Frame] = frames) -> Snapshot:
                frames.append(seen)
                return make(seen, settings)

            monkeypatch.setattr(session, "from_frame", keep)
            play(scenario, lambda c, o, f=frames, m=moves: Watched(c, o, f, m), seed)  # type: ignore[misc]
            count += len(moves)
            found = [each for each in judge(frames, moves) if each.realised is not None]
            judged += found
            clear += [each for each in found if -each.predicted >= 0.05 * usage_of(frames[each.round], each.broker)]
    assert count >= 500
    for sign in (-1, 1):  # sources, targets
        ends = [each for each in judged if each.predicted * sign > 0]
        assert 0.85 <= np.mean([each.inside for each in ends]) <= 0.95
    widths = [each.half_width / abs(each.predicted) for each in clear if not each.by_prior]
    assert len(widths) >= 50
    assert np.median(widths) <= 0.5


def usage_of(seen: Frame, broker: str) -> float:
    at = seen.brokers.index(broker)
    return float(seen.usage[at, CPU] / seen.limit[at, CPU])
