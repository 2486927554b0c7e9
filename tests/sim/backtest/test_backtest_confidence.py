"""How sure a recommendation is: by hours, days and rounds, and by whether anything tells the points apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.backtest.choose.confidence import Confidence, Grade, confidence
from controller.backtest.choose.pareto import DAY_MS
from controller.backtest.choose.recommend import recommend
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings
from tests.sim.backtest.test_backtest_recommend import GRID, point

BASE = PolicySettings()
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
TWO = [point(max_best=1.1), point("average", max_best=1.2)]


def graded(lasted_ms: int, rounds: int = 1_440, results: list[PointResult] = TWO) -> Confidence:
    return confidence([replace(result, rounds=rounds) for result in results], lasted_ms)


@pytest.mark.parametrize(
    ("lasted_ms", "rounds", "grade", "why"),
    [
        (5 * MINUTE_MS, 31, Grade.NONE, "5 minutes, 31 rounds: too short to choose by"),
        (0, 1, Grade.NONE, "a single step, 1 round: too short to choose by"),
        (20_000, 2, Grade.NONE, "20 seconds, 2 rounds: too short to choose by"),
        (MINUTE_MS, 6, Grade.NONE, "1 minute, 6 rounds: too short to choose by"),
        (5 * MINUTE_MS, 1, Grade.NONE, "5 minutes, 1 round: too short to choose by"),
        (HOUR_MS - 1, 360, Grade.NONE, "60 minutes, 360 rounds: too short to choose by"),
        (HOUR_MS, 360, Grade.LOW, "1.0 hours, 360 rounds: what repeats daily was not seen"),
        (20 * HOUR_MS - 1, 1_200, Grade.LOW, "20.0 hours, 1200 rounds: what repeats daily was not seen"),
        (24 * HOUR_MS, 99, Grade.LOW, "24.0 hours, 99 rounds: too few for what waits for several of them"),
        (24 * HOUR_MS, 100, Grade.MEDIUM, "fewer than 3 days"),
        (3 * DAY_MS - 1, 4_319, Grade.MEDIUM, "fewer than 3 days"),
        (3 * DAY_MS, 4_320, Grade.HIGH, "3.0 days, 4320 rounds: what repeats weekly was not seen"),
        (7 * DAY_MS, 9_999, Grade.HIGH, "7.0 days, 9999 rounds: days and weekends were seen"),
    ],
)
def test_hours_days_and_rounds(lasted_ms: int, rounds: int, grade: Grade, why: str) -> None:
    found = graded(lasted_ms, rounds)
    assert found.grade is grade
    assert why in found.why
    assert str(found) == f"{'no' if grade is Grade.NONE else grade.value} confidence ({found.why})"
    assert found.too_short == (lasted_ms < HOUR_MS)


def test_points_that_nothing_tells_apart_give_no_confidence_however_long_it_took() -> None:
    same = [point(), replace(point("average"), error_p90=None)]
    assert graded(9 * DAY_MS, results=same).grade is Grade.NONE
    assert "all 2 points came to the same" in graded(9 * DAY_MS, results=same).why
    still = [replace(result, moves_balance=0, moves_addition=0, splits=0) for result in TWO]
    assert "no point moved anything" in graded(DAY_MS, results=still).why
    assert str(confidence([], DAY_MS)) == "no confidence (no point has finished)"


def test_minutes_of_recording_recommend_nothing() -> None:
    found = recommend(GRID, 5 * MINUTE_MS, BASE)
    assert found.confidence.grade is Grade.NONE
    assert found.point is None
    assert found.strategy == BASE.strategy
    configured = (BASE.steady.churn, BASE.steady.tolerance)
    assert (found.settings["steady.churn"], found.settings["steady.tolerance"]) == configured
    assert found.kept == set(found.settings)
    assert found.reasons[1].startswith("Over 5 minutes the most even point was `steady` with")
    assert found.advice == ("The recording lasts 5 minutes: what repeats daily is not in it. Replay a day or more.",)


def test_an_hour_of_recording_recommends_what_it_speaks_for() -> None:
    found = recommend(GRID, HOUR_MS, BASE)
    assert found.confidence.grade is Grade.LOW
    assert found.point == found.overall.chosen if found.overall else None
    assert found.strategy == "steady"
    assert (found.settings["steady.churn"], found.settings["steady.tolerance"]) == (0.02, 0.05)
    assert found.kept == set()


def test_what_had_one_value_is_kept_as_it_is_configured() -> None:
    found = recommend(TWO, HOUR_MS, BASE)
    assert found.kept == {"steady.tolerance", "steady.churn", "steady.budget"}


def test_without_confidence_the_configuration_stays() -> None:
    base = PolicySettings(strategy="average")
    same = [replace(point(), knobs={"steady.tolerance": value}) for value in (0.02, 0.2)]
    found = recommend(same, DAY_MS, base)
    assert found.confidence.grade is Grade.NONE
    assert found.strategy == "average"
    assert found.settings == {}, "average reads no knob of steady"
    stays = recommend(same, DAY_MS, PolicySettings())
    assert (stays.strategy, stays.settings["steady.tolerance"]) == ("steady", PolicySettings().steady.tolerance)
    assert found.reasons[0].startswith("Nothing tells the points apart (max/best 1.100")
    assert "strategy `average` stays" in found.reasons[0]
