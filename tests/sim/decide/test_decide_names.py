"""Names of a line's bundles: what is found run by run is what looking up every name finds."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.decide.names import LOOKED_UP, Names
from tests.examples import examples

LINES = st.lists(st.integers(0, 300), max_size=300)


def named(numbers: list[int]) -> list[str]:
    return [f"t/ns{at % 3}/0x{at:08x}" for at in numbers]


def check(names: Names, line: list[str]) -> None:
    assert names.sorted == tuple(sorted(set(line)))
    assert [names.sorted[at] for at in names.at.tolist()] == line
    assert sum(names.spaces.values()) == len(names.sorted)


@given(LINES, LINES)
@settings(max_examples=examples(100))
def test_any_line_after_any_other(one: list[int], other: list[int]) -> None:
    names = Names.of(named(one))
    check(names, named(one))
    check(names.follow(named(other)), named(other))


@given(st.lists(st.text(st.sampled_from("a0b-\n\x01\xff\u0416\ud800\U0001f600\0"), max_size=6), max_size=40))
@settings(max_examples=examples(300))
def test_names_of_any_text_are_in_the_order_of_strings(line: list[str]) -> None:
    check(Names.of(line), line)


def test_one_long_name_does_not_make_all_rows_long() -> None:
    line = [*named(list(range(999, 0, -1))), "t/" + "n" * 100_000]
    tracemalloc.start()
    check(Names.of(line), line)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 5e6


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), max_size=LOOKED_UP // 2))
@settings(max_examples=examples(100))
def test_a_few_moves_keep_the_sorted_names(moves: list[tuple[int, int]]) -> None:
    line = named([(at * 37) % 1000 for at in range(1000)])
    names = Names.of(line)
    moved = list(line)
    for source, target in moves:
        moved.insert(target, moved.pop(source))
    after = names.follow(moved)
    check(after, moved)
    assert after.sorted is names.sorted


@pytest.mark.parametrize("change", [["t/ns0/new"], []])
def test_a_bundle_more_or_less_renews_the_names(change: list[str]) -> None:
    line = named(list(range(200)))
    after = Names.of(line).follow([*change, *line[1:]])
    check(after, [*change, *line[1:]])
    assert np.array_equal(np.sort(after.at), np.arange(len(after.sorted)))
