"""PNG plots of a backtest: Pareto front, timeline, moves by cause. Imports matplotlib: import it lazily.

The same points give the same picture. A picture without points says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from controller.backtest.report.view import CAUSES, RING, View, thin_out

_GREY = "#999999"


def draw_pareto(view: View, file: Path) -> None:
    """Draw all points by churn and imbalance, the front as a line, and a ring around the recommended point.

    As in the interactive plot, lower markers are larger, and a number shows how many points share a place.
    """
    plot, axes = _canvas(1, 7, 4.5)
    for strategy in view.strategies:
        mine = [at for at, result in enumerate(view.results) if result.strategy == strategy]
        at_x, at_y = [view.churn[at] for at in mine], [view.imbalance[at] for at in mine]
        sizes = [(5 + RING * view.ring(at)) ** 2 for at in mine]
        axes.scatter(at_x, at_y, s=sizes, color=view.colour(strategy), zorder=2)
        axes.scatter([], [], s=22, color=view.colour(strategy), label=strategy)
    for place, tied in view.places.items():
        if len(tied) > 1:
            axes.annotate(f"×{len(tied)}", place, xytext=(6 + RING * view.ring(tied[0]) / 2, 4),
                          textcoords="offset points", fontsize="x-small")  # fmt: skip
    front_x, front_y = [view.churn[at] for at in view.front], [view.imbalance[at] for at in view.front]
    axes.plot(front_x, front_y, color=_GREY, linestyle=":", zorder=1, label="Pareto front")
    if (chosen := view.recommended) is not None:
        look = {"s": 160, "facecolors": "none", "edgecolors": "black", "label": "recommended", "zorder": 3}
        axes.scatter([view.churn[chosen]], [view.imbalance[chosen]], **look)
    axes.set(xlabel="moves for balance of a bundle a day", ylabel="max/best, mean")
    _finish(plot, axes, file, bool(view.results))


def draw_timeline(view: View, file: Path) -> None:
    """Draw max/best and the moves so far, one line for the chosen point of every strategy."""
    plot, (balance, moves) = _canvas(2, 9, 6)
    chosen = {strategy: at for strategy, at in view.chosen.items() if view.runs[at].timeline.at_ms}
    start_ms = min((view.runs[at].timeline.at_ms[0] for at in chosen.values()), default=0)
    for strategy, at in chosen.items():
        line = thin_out(view.runs[at].timeline)
        hours = (np.array(line.at_ms) - start_ms) / 3_600_000
        look = {
            "color": view.colour(strategy),
            "linewidth": 1.1,
            "label": view.label_of(at),
        }
        balance.plot(hours, line.max_best, **look)
        moves.plot(hours, np.cumsum(line.moves), **look)
    balance.set_ylabel("max/best")
    moves.set(xlabel="hours", ylabel="moves so far")
    _finish(plot, balance, file, bool(chosen))


def draw_causes(view: View, file: Path) -> None:
    """Draw stacked bars of the moves of every strategy's chosen point, by cause."""
    plot, axes = _canvas(1, 7, 3.5)
    names, below = list(view.chosen), np.zeros(len(view.chosen))
    for cause, (colour, words) in CAUSES.items():
        heights = np.array([getattr(view.results[at], f"moves_{cause}") for at in view.chosen.values()], np.float64)
        axes.bar(names, heights, bottom=below, color=colour, label=words)
        below += heights
    axes.set_ylabel("moves")
    axes.tick_params(axis="x", rotation=30)
    _finish(plot, axes, file, bool(names))


def _canvas(rows: int, width: float, height: float) -> Any:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(rows, 1, figsize=(width, height), sharex=True)


def _finish(plot: Any, axes: Any, file: Path, something: bool) -> None:
    import matplotlib.pyplot as plt

    if something:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False, fontsize="x-small")
    else:
        axes.text(0.5, 0.5, "no finished point", transform=axes.transAxes, ha="center", color=_GREY)
    file.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(file, bbox_inches="tight", dpi=120)
    plt.close(plot)
