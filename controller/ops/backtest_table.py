"""The scoreboard in the terminal: one row a point, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from controller.ops.show import emit_table
from controller.sim.backtest.result import PointResult, table_columns

# figure -> its head and digits; what is left out is in results.csv
SHOWN = {
    "max_best_mean": ("max/best", 3), "max_best_end": ("at end", 3), "max_best_worst": ("worst", 2),
    "cv_mean": ("CV", 3), "thrash_pct": ("thrash %", 1), "moves_addition": ("added", 0),
    "moves_removal": ("removed", 0), "moves_balance": ("balance", 0), "splits": ("splits", 0),
    "useless_rate": ("useless", 2), "overload_minutes": ("overload min", 1), "unavailable_bundle_s": ("gaps s", 0),
    "error_p50": ("error p50", 3), "error_p90": ("p90", 3),
}  # fmt: skip


def emit_scoreboard(results: Sequence[PointResult]) -> None:
    """Print it; knobs that any of the results has come after the strategy."""
    knobs = [name for name in table_columns(results) if any(name in result.knobs for result in results)]
    heads = ["strategy", *(f"{name} >" for name in knobs), *(f"{head} >" for head, _ in SHOWN.values())]
    emit_table(heads, [_row(result, knobs) for result in results], empty="no finished point")


def _row(result: PointResult, knobs: Sequence[str]) -> list[object]:
    figures = [_text(getattr(result, name), digits) for name, (_, digits) in SHOWN.items()]
    return [result.strategy, *(result.knobs.get(name) for name in knobs), *figures]


def _text(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"
