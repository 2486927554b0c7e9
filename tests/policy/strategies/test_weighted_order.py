"""Which bundles `weighted` takes: against all subsets, on small sources."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.policy.strategies.weighted.bundle_value import LOAD, SESSIONS, TRAFFIC, UNACKED, shedding_order
from tests.examples import examples

LIMIT = 100.0
BUNDLES = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)), min_size=1, max_size=8)


def taken(relief: np.ndarray, excess: np.ndarray, value: np.ndarray) -> list[int]:
    """Rows in the order in which a source gives them away until it is within its limits, or has none left."""
    left, gone = list(range(len(relief))), []
    limit = np.full(len(excess), LIMIT)
    while (excess > 0).any():
        limits = np.flatnonzero(excess > 0)
        found = shedding_order(relief[left][:, limits], excess[limits], limit[limits], value[left])
        if not len(found.rows):
            break
        row = left.pop(int(found.rows[0]))
        gone.append(row)
        excess = excess - relief[row]
    return gone


def smallest(relief: np.ndarray, excess: np.ndarray) -> list[tuple[int, ...]]:
    """All sets of the fewest rows that suffice; none where all together do not."""
    for count in range(len(relief) + 1):
        found = [rows for rows in combinations(range(len(relief)), count) if _enough(relief, excess, rows)]
        if found:
            return found
    return []


def _enough(relief: np.ndarray, excess: np.ndarray, rows: tuple[int, ...]) -> bool:
    return bool((relief[list(rows)].sum(axis=0) >= excess).all())


@given(BUNDLES, st.integers(1, 90))
@settings(max_examples=examples(200))
def test_of_one_limit_the_fewest_go_and_the_first_is_the_least_valuable_that_can_be_among_them(
    bundles: list[tuple[int, int]], over: int
) -> None:
    relief = np.array([[float(part)] for part, _ in bundles])
    value, excess = np.array([worth for _, worth in bundles]), np.array([float(over)])
    sets = smallest(relief, excess)
    gone = taken(relief, excess, value)
    if not sets:  # those that relieve most first, until nothing is left that is worth it
        assert [bundles[row][0] for row in gone] == sorted((part for part, _ in bundles), reverse=True)
        return
    assert len(gone) == len(sets[0])
    assert shedding_order(relief, excess, np.array([LIMIT]), value).moves == len(gone)
    possible = sorted({row for rows in sets for row in rows}, key=lambda row: (value[row], row))
    assert gone[0] == possible[0]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=7), st.data())
@settings(max_examples=examples(100))
def test_of_two_limits_both_are_met_where_that_is_possible(parts: list[tuple[int, int]], data: st.DataObject) -> None:
    relief = np.array(parts, float)
    excess = np.array([data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60))], float)
    gone = taken(relief, excess, np.zeros(len(parts), np.int64))
    assert len(gone) == len(set(gone))
    if smallest(relief, excess):
        assert _enough(relief, excess, tuple(gone))
        assert not _enough(relief, excess, tuple(gone[:-1]))


def test_what_relieves_next_to_nothing_stays_where_nothing_suffices() -> None:
    relief = np.array([[0.5], [2.0], [0.9]])
    found = shedding_order(relief, np.array([50.0]), np.array([LIMIT]), np.zeros(3, np.int64))
    assert (found.rows.tolist(), found.moves) == ([1], 0)


def test_the_weights_of_a_value_add_up_to_one() -> None:
    assert pytest.approx(1.0) == SESSIONS + UNACKED + TRAFFIC + LOAD
    assert SESSIONS > UNACKED > TRAFFIC > LOAD > 0
