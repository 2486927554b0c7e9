"""A table in a pipe looks as rich would print it, whoever lays it out."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.cli import show
from controller.cli.plain_table import WRAPPED, lay_out

WORDS = st.sampled_from(
    ["a", "broker-1:8080", "95.0 %", "→", "\u22126.1 %", "日本", "would", "x" * 40, "0x00_0xff", "1,200"]
)
CELLS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
COLUMNS = st.sampled_from(["bundle", "score >", "reason …", "for >", "what …"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], str]:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=5))
    rows = draw(st.lists(st.lists(CELLS, min_size=len(columns), max_size=len(columns)), min_size=1, max_size=4))
    return columns, rows, draw(st.sampled_from(["", "in flight", "at 12:30:00 UTC, strategy steady"]))


@settings(deadline=None)
@given(table=tables())
@example(table=(["reason …"], [[" ".join(["word"] * 60)]], ""))
@example(table=(["reason …", "n >"], [["x" * (WRAPPED + 1), "1"]], ""))
@example(table=(["name"], [["[bold]two"]], "title that is longer than the table"))
def test_as_rich_does(table: tuple[list[str], list[list[str]], str]) -> None:
    columns, rows, title = table
    plain = lay_out(columns, rows, title)
    assert plain is None or plain == show._lay_out_by_rich(columns, rows, title)


@pytest.mark.parametrize(
    ("columns", "row", "title"),
    [
        (["name"], ["a\nb"], ""),
        (["name"], ["a  b"], ""),
        (["name"], ["a "], ""),
        (["reason …"], ["x" * (WRAPPED + 1)], ""),
        (["name"], ["a"], "longer than the table"),
        (["name", "more"], ["long enough for it", "b"], "[red]"),
        (["name", "more"], ["long enough for it", "b"], ":smile:"),
    ],
)
def test_what_needs_more_than_spaces_is_left_to_rich(columns: list[str], row: list[str], title: str) -> None:
    assert lay_out(columns, [row], title) is None


def test_usual_tables_are_laid_out_here() -> None:
    rows = [["b1:8080", "95.0 %", "405_would_not_improve (hard): would not improve"], ["b2:8080", "\u2212", "-"]]
    assert lay_out(["broker", "score >", "reason …"], rows) is not None
