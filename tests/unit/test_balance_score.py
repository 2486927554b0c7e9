"""The balance score at its ends and in between."""

from __future__ import annotations

import math

import pytest

from controller.operations.balance_score import LEAST_LOAD, balance_score, balance_score_of


@pytest.mark.parametrize(
    ("loads", "score"),
    [
        ([0.5, 0.5, 0.5], 100.0),
        ([0.5], 100.0),
        ([0.0, 0.0], 100.0),
        ([0.5, 0.3], 80.0),  # max/mean 1.25
        ([1.0, 0.0, 0.0, 0.0], 25.0),  # one broker of four has it all
        ([1.5, 0.5], 100 * 1.0 / 1.5),  # beyond its limit
        ([0.02, 0.0], 90.0),  # an idle cluster: measured against LEAST_LOAD
        ([0.5, None, 0.3, math.nan], 80.0),
        ([None], None),
        ([], None),
    ],
)
def test_score(loads: list[float | None], score: float | None) -> None:
    found = balance_score_of(loads)
    assert found == (None if score is None else pytest.approx(score))


def test_it_does_not_jump_where_the_measure_changes() -> None:
    below, above = LEAST_LOAD - 1e-9, LEAST_LOAD + 1e-9
    assert balance_score(below, below / 2) == pytest.approx(balance_score(above, above / 2), abs=1e-5)


def test_it_stays_within_its_range() -> None:
    assert balance_score(0.4, 0.4 + 1e-12) == 100.0
    assert balance_score(5.0, 0.0) == 0.0
    assert balance_score(None, 0.3) is None
    assert balance_score(0.3, math.nan) is None
