"""Plots of the notebooks, each small enough to be seen beside its heading. Without matplotlib the tables are all.

Colours are told apart without seeing red and green; of more series than fit a legend the largest are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WIDTH, HEIGHT = 9.0, 3.2  # inches: a plot and its heading fit a laptop's screen
MOST_SERIES = 8
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#666666", "#f0e442")  # Okabe and Ito's
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def lines(frame: Any, x: str, y: str, series: str, title: str, marks: Mapping[str, str] | None = None) -> None:
    """Lines over time, one for each value of `series`. `marks`: name -> time of a vertical line, as text in UTC."""
    pyplot = _pyplot()
    if pyplot is None:
        return
    rows = frame.select(x, y, series).toPandas()
    if rows.empty:
        return
    data = rows.pivot_table(index=x, columns=series, values=y)
    kept = data.max().sort_values(ascending=False).index[:MOST_SERIES]
    axes = _axes(pyplot, title if len(kept) == len(data.columns) else f"{title}: the {MOST_SERIES} highest of all")
    for colour, name in zip(COLOURS, sorted(kept), strict=False):
        axes.plot(data.index, data[name], label=str(name), color=colour, linewidth=1.6)
    for name, at in (marks or {}).items():
        place = type(data.index[0])(at)
        axes.axvline(place, color="#444444", linestyle="--", linewidth=1)
        axes.annotate(name, (place, 1), xycoords=("data", "axes fraction"), xytext=(3, -9), textcoords="offset points")
    axes.set_ylabel(y)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    _show(pyplot)


def bars(frame: Any, name: str, value: str, title: str, level: float | None = None) -> None:
    """A horizontal bar for each row, in its order, at most fifteen. `level`: where a line is drawn."""
    pyplot = _pyplot()
    if pyplot is None:
        return
    rows = frame.select(name, value).take(15)
    axes = _axes(pyplot, title)
    axes.barh([str(row[0]) for row in rows], [row[1] or 0.0 for row in rows], color=COLOURS[0])
    axes.invert_yaxis()
    if level is not None:
        axes.axvline(level, color=COLOURS[5], linestyle="--", linewidth=1)
    axes.set_xlabel(value)
    _show(pyplot)


def week(frame: Any, value: str, title: str) -> None:
    """A square for each `weekday` (1 is Monday) and `hour`, darker for more."""
    pyplot = _pyplot()
    if pyplot is None:
        return
    data = frame.select("weekday", "hour", value).toPandas().pivot_table(index="weekday", columns="hour", values=value)
    axes = _axes(pyplot, title)
    drawn = axes.imshow(data.to_numpy(), aspect="auto", cmap="cividis_r")
    axes.set_yticks(range(len(data.index)), [WEEKDAYS[day - 1] for day in data.index])
    axes.set_xticks(range(0, len(data.columns), 3), list(data.columns[::3]))
    axes.set_xlabel("hour (UTC)")
    axes.grid(False)
    axes.figure.colorbar(drawn, ax=axes, label=value)
    _show(pyplot)


def picture(file: Any, title: str) -> None:
    """A picture that is a file."""
    pyplot = _pyplot()
    if pyplot is None:
        return
    axes = _axes(pyplot, title, 2 * HEIGHT)
    axes.imshow(pyplot.imread(file))
    axes.axis("off")
    _show(pyplot)


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        return None
    return pyplot


def _axes(pyplot: Any, title: str, height: float = HEIGHT) -> Any:
    _, axes = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def _show(pyplot: Any) -> None:
    pyplot.show()
