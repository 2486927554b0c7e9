"""The scoreboard of a backtest as HTML: a row for each point, figures with names and units. All input is escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from controller.backtest.point.result import PointResult
from controller.backtest.report.view import View
from controller.operations.text import duration_text

MINUTE_MS = 60_000


def _ratio(value: float) -> str:
    return f"{value:.3f}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _percent(value: float) -> str:
    return f"{value:.1f} %"


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


def _minutes(value: float) -> str:
    return duration_text(value * MINUTE_MS) if value else "none"


def _seconds(value: float) -> str:
    return duration_text(value * 1000) if value else "none"


class Figure(NamedTuple):
    """A column: the field of `PointResult`, the group and name that head it, its text, what it means."""

    field: str
    group: str
    name: str
    text: Callable[[float], str]
    means: str


IMBALANCE, MOVES, COST, PREDICTIONS = "Imbalance (max/best)", "Moves", "What they cost", "Predictions"
FIGURES = (
    Figure("max_best_mean", IMBALANCE, "mean", _ratio,
           "highest load of a broker divided by the best achievable one, mean of all steps; 1 is perfect balance"),
    Figure("max_best_end", IMBALANCE, "at the end", _ratio, "the same over the last tenth of the steps"),
    Figure("max_best_worst", IMBALANCE, "worst", _ratio, "the same in the worst step"),
    Figure("cv_mean", IMBALANCE, "variation", _ratio,
           "standard deviation of the brokers' loads divided by their mean, mean of all steps"),
    Figure("moves_balance", MOVES, "for balance", _count,
           "moves that neither filled an empty broker nor replaced a lost one"),
    Figure("splits", MOVES, "splits", _count, "bundles cut in two"),
    Figure("moves_addition", MOVES, "to new", _count, "moves to brokers that had been empty a short while before"),
    Figure("moves_removal", MOVES, "from lost", _count, "placements of what brokers left behind that went away"),
    Figure("useless_rate", MOVES, "useless", _share,
           "moves by rounds that brought source and target no closer, or were undone within 30 minutes"),
    Figure("thrash_pct", MOVES, "to and fro", _percent,
           "how far load was moved back and forth, in percent of the range it was placed in"),
    Figure("overload_minutes", COST, "overload", _minutes, "time at a load of 85 % or more, sum of all brokers"),
    Figure("unavailable_bundle_s", COST, "not served", _seconds,
           "time without an owner that serves, sum of all bundles"),
    Figure("error_p50", PREDICTIONS, "off by, median", _share,
           "how far the predicted load of source and target was off, as a share of the level all brokers could have"),
    Figure("error_p90", PREDICTIONS, "nine in ten", _share, "nine in ten predictions were off by at most this"),
    Figure("n_checked", PREDICTIONS, "checked", _count, "predictions that could be compared with what came of them"),
)  # fmt: skip
KEY_FIGURES = {  # field: what it is called where it stands alone
    "max_best_mean": "imbalance", "moves_balance": "moves for balance", "splits": "splits",
    "overload_minutes": "overload", "unavailable_bundle_s": "bundles not served",
}  # fmt: skip


def scoreboard(view: View) -> str:
    """The table, with marks for the recommended and the configured point and for those on the Pareto front."""
    knobs = sorted({name for result in view.results for name in result.knobs})
    rows = "\n".join(
        f'<tr class="{" ".join(_marks(view, at))}">{_row(view, at, knobs)}</tr>' for at in range(len(view.results))
    )
    note = "<p>Click a heading to sort. <i>Front</i>: no other point has both less imbalance and fewer moves.</p>"
    return (
        f'{note}<div class="scroll"><table id="scoreboard"><thead>{_heads(view, knobs)}</thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def changes(view: View) -> str:
    """The key figures now and as recommended; nothing unless both points were run and differ."""
    now, then = view.configured, view.recommended
    if now is None or then is None or now == then:
        return ""
    texts = {figure.field: figure.text for figure in FIGURES}
    tiles = []
    for field, name in KEY_FIGURES.items():
        before, after = (texts[field](getattr(view.results[at], field)) for at in (now, then))
        tiles.append(f"<div><dt>{name}</dt><dd>{before} → <b>{after}</b></dd></div>")
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def meanings() -> str:
    """What the figures mean, as a list."""
    parts = []
    for group, figures in groupby(FIGURES, key=lambda figure: figure.group):
        pairs = "".join(f"<dt>{escape(one.name)}</dt><dd>{escape(one.means)}</dd>" for one in figures)
        parts.append(f"<h3>{escape(group)}</h3><dl>{pairs}</dl>")
    return "".join(parts)


def _marks(view: View, at: int) -> list[str]:
    marks = ["front"] if at in view.front else []
    marks += ["now"] if at == view.configured else []
    return marks + (["recommended"] if at == view.recommended else [])


def _heads(view: View, knobs: Sequence[str]) -> str:
    """Two rows: groups, then the headings by which rows are sorted."""
    groups = f'<th class="word" scope="col">{_sorter("strategy")}</th>'
    for knob in knobs:
        heading = view.names.heading(knob)
        name = escape(heading.name) + (f" <small>{escape(heading.unit)}</small>" if heading.unit else "")
        groups += f'<th scope="col" title="{escape(heading.key)}">{_sorter(name)}</th>'
    groups = groups.replace("<th ", '<th rowspan="2" ')
    for group, figures in groupby(FIGURES, key=lambda figure: figure.group):
        groups += f'<th class="group" scope="colgroup" colspan="{len(list(figures))}">{escape(group)}</th>'
    heads = "".join(f'<th scope="col" title="{escape(one.means)}">{_sorter(escape(one.name))}</th>' for one in FIGURES)
    return f"<tr>{groups}</tr><tr>{heads}</tr>"


def _sorter(name: str) -> str:
    return f'<button type="button" class="sort">{name}</button>'


def _row(view: View, at: int, knobs: Sequence[str]) -> str:
    result = view.results[at]
    words = {"recommended": "recommended", "now": "as configured", "front": "front"}
    marks = "".join(f' <small class="mark">{words[mark]}</small>' for mark in reversed(_marks(view, at)))
    name = escape(result.strategy)
    cells = f'<th class="word" scope="row" data-value="{name}">{name}{marks}</th>'
    cells += "".join(_knob_cell(view, result, knob) for knob in knobs)
    return cells + "".join(_cell(result, figure) for figure in FIGURES)


def _knob_cell(view: View, result: PointResult, knob: str) -> str:
    if knob not in result.knobs:
        return '<td data-value="">–</td>'
    value = result.knobs[knob]
    return f'<td data-value="{"" if value is None else f"{value:g}"}">{escape(view.names.text(knob, value))}</td>'


def _cell(result: PointResult, figure: Figure) -> str:
    value = getattr(result, figure.field)
    if value is None:
        return '<td data-value="">–</td>'
    return f'<td data-value="{value}">{figure.text(value)}</td>'
