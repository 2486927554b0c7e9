"""Prints the scoreboard of a backtest: one row per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult, table_columns
from controller.cli.show import emit_table, fits

# figure -> column head and digits; all other figures are in results.csv
COLUMNS = {
    "max_best_mean": ("max/best", 3), "max_best_end": ("at end", 3), "max_best_worst": ("worst", 2),
    "cv_mean": ("CV", 3), "thrash_pct": ("thrash %", 1), "moves_addition": ("added", 0),
    "moves_removal": ("removed", 0), "moves_balance": ("balance", 0), "splits": ("splits", 0),
    "useless_rate": ("useless", 2), "overload_minutes": ("overload min", 1), "unavailable_bundle_s": ("gaps s", 0),
    "error_p50": ("error p50", 3), "error_p90": ("p90", 3),
}  # fmt: skip
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
    figures = [_text(getattr(result, name), COLUMNS[name][1]) for name in names]
    return [result.strategy, *(_knob_text(result, name, words) for name in knobs), *figures]


def _knob_text(result: PointResult, name: str, words: Mapping[tuple[str, Value], str]) -> object:
    value = result.knobs.get(name)
    return words.get((name, value), value) if name in result.knobs else None


def _text(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"
