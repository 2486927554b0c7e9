"""Runs of entry numbers behave as the sets that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ledger.repair.runs import intersect, numbers_in, runs_of, runs_text, subtract, unite

NUMBERS = st.sets(st.integers(0, 30))


@given(NUMBERS, NUMBERS)
def test_runs_are_sets(one: set[int], other: set[int]) -> None:
    a, b = runs_of(sorted(one)), runs_of(sorted(other, reverse=True))
    for runs, numbers in (
        (a, one),
        (unite(a, b), one | other),
        (subtract(a, b), one - other),
        (intersect(a, b), one & other),
    ):
        assert list(numbers_in(runs)) == sorted(numbers)
        assert runs == runs_of(sorted(numbers)), "sorted, disjoint and as long as they can be"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([4], "entry 4"), ([4, 5, 6], "entries 4 to 6"), ([9, 4, 5, 12, 12], "entries 4 to 5, 9, 12"), ([], "entries ")],
)
def test_runs_in_words(numbers: list[int], text: str) -> None:
    assert runs_text(runs_of(numbers)) == text
