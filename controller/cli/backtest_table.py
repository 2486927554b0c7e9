"""Prints the scoreboard of a backtest: one row per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult, table_columns
from controller.backtest.report.scoreboard import FIGURES
from controller.cli.show import emit_table, fits

# named as in the report, which says what they mean; there "mean" stands below the heading "Imbalance"
COLUMNS = {one.field: ("imbalance" if one.field == "max_best_mean" else one.name, one.text) for one in FIGURES}
# on a terminal that is too narrow for all: those by which a point is recommended
FEW = ("max_best_mean", "max_best_worst", "moves_balance", "splits", "overload_minutes")


def emit_scoreboard(
    results: Sequence[PointResult], keys: Mapping[str, str], words: Mapping[tuple[str, Value], str]
) -> None:
    """Print the scoreboard; the knobs of any result follow the strategy, with names and values as they were given."""
    knobs = [name for name in table_columns(results) if any(name in result.knobs for result in results)]
    for figures in (tuple(COLUMNS), FEW):
        heads = [
            "strategy",
            *(f"{keys.get(name, name)} >" for name in knobs),
            *(f"{COLUMNS[name][0]} >" for name in figures),
        ]
        rows = [_row(result, knobs, words, figures) for result in results]
        if fits(heads, rows):
            break
    emit_table(heads, rows, empty="no finished point")


def _row(
    result: PointResult, knobs: Sequence[str], words: Mapping[tuple[str, Value], str], names: Sequence[str]
) -> list[object]:
    values = [(getattr(result, name), COLUMNS[name][1]) for name in names]
    figures = [None if value is None else text_of(value) for value, text_of in values]
    return [result.strategy, *(_knob_text(result, name, words) for name in knobs), *figures]


def _knob_text(result: PointResult, name: str, words: Mapping[tuple[str, Value], str]) -> object:
    value = result.knobs.get(name)
    return words.get((name, value), value) if name in result.knobs else None
