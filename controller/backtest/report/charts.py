"""Interactive plots of a backtest as pieces of HTML; the page includes the library's code once.

If points or lines of several strategies coincide, the lower ones are drawn larger, so that all are visible. Pieces have
fixed ids and no random parts, so the same points give the same bytes. Names are escaped, because plotly interprets the
text of legends and hover boxes as HTML. Colours of text and boxes are the page's, which sets them for light and dark
(`look`). Imports plotly: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from controller.backtest.report.view import CAUSES, MOST_NAMED, RING, View, thin_out
from controller.operations.text import duration_text, time_text

NO_BREAK = "\u00a0"
STAR, SPACE = 20, 3.6  # pixels: the recommended point's, a blank's
CLEAR, GRID, STAR_COLOUR = "rgba(0,0,0,0)", "rgba(128,128,128,0.25)", "#cc3311"  # seen on light and on dark
IMBALANCE = "imbalance (max/best)"
MINUTE_MS = 60_000
AXIS = {"gridcolor": GRID, "zerolinecolor": GRID, "automargin": True}
LAYOUT = {
    "template": "none",
    "paper_bgcolor": CLEAR,
    "plot_bgcolor": CLEAR,
    "margin": {"l": 55, "r": 15, "t": 20, "b": 45},
    "legend": {"orientation": "h", "y": -0.2, "itemsizing": "constant"},
    "font": {"family": "system-ui, sans-serif", "size": 13},
}


def library() -> str:
    """The JavaScript that draws the pieces."""
    return str(get_plotlyjs())


def pareto_chart(view: View) -> str:
    """All points by churn and imbalance with their knobs in the hover box, the front, and the recommended point.

    A number shows how many points share a place.
    """
    figure = go.Figure()
    front = view.front[::-1]
    figure.add_scatter(
        x=[view.churn[at] for at in front], y=[view.imbalance[at] for at in front],
        mode="lines", line={"color": "#999999", "dash": "dot"}, name="Pareto front", hoverinfo="skip",
    )  # fmt: skip
    for strategy in view.strategies:
        mine = [at for at, result in enumerate(view.results) if result.strategy == strategy]
        figure.add_scatter(
            x=[view.churn[at] for at in mine], y=[view.imbalance[at] for at in mine], mode="markers",
            marker={"color": view.colour(strategy), "opacity": 1, "size": [_size(view, at) for at in mine]},
            name=escape(strategy), hovertext=[_hover(view, at) for at in mine], hoverinfo="text",
        )  # fmt: skip
    several = {place: tied for place, tied in view.places.items() if len(tied) > 1}
    if several:
        figure.add_scatter(
            x=[x for x, _ in several], y=[y for _, y in several], mode="text", hoverinfo="skip", showlegend=False,
            text=[_count(view, tied) for tied in several.values()], textposition="middle right", cliponaxis=False,
        )  # fmt: skip
    if (at := view.recommended) is not None:
        figure.add_scatter(
            x=[view.churn[at]], y=[view.imbalance[at]], mode="markers", name="recommended", hoverinfo="skip",
            marker={"symbol": "star-open", "size": STAR, "color": STAR_COLOUR, "line": {"width": 2}},
        )  # fmt: skip
    figure.update_xaxes(**AXIS, title_text="moves for balance of a bundle a day")
    figure.update_yaxes(**AXIS, title_text=IMBALANCE)
    figure.update_layout(LAYOUT, height=460, hovermode="closest", hoverlabel={"align": "left"})
    return _piece(figure, "pareto")


def timeline_chart(view: View) -> str:
    """Max/best and moves over time, one line for the chosen point of every strategy."""
    under = _lines_over(view)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.65, 0.35])
    for strategy, at in view.chosen.items():
        line = thin_out(view.runs[at].timeline)
        when = [time_text(ms) for ms in line.at_ms]
        look = {"color": view.colour(strategy), "width": 1.4 + 1.6 * under[strategy]}
        shared = {"x": when, "mode": "lines", "line": look, "legendgroup": escape(strategy)}
        figure.add_scatter(y=line.max_best, name=escape(view.label_of(at)), **shared, row=1, col=1)
        figure.add_scatter(y=line.moves, name=escape(strategy), showlegend=False, **shared, row=2, col=1)
    figure.update_xaxes(AXIS)
    figure.update_yaxes(**AXIS, title_text="imbalance", row=1, col=1)
    figure.update_yaxes(**AXIS, title_text="moves", row=2, col=1)
    figure.update_xaxes(title_text="time (UTC)", row=2, col=1)
    figure.update_layout(LAYOUT, height=560, hovermode="x unified")
    return _piece(figure, "timeline")


def causes_chart(view: View) -> str:
    """Stacked bars of the moves of every strategy's chosen point, by cause."""
    figure = go.Figure()
    names = [escape(strategy) for strategy in view.chosen]
    for cause, (colour, words) in CAUSES.items():
        heights = [getattr(view.results[at], f"moves_{cause}") for at in view.chosen.values()]
        figure.add_bar(x=names, y=heights, name=words, marker_color=colour)
    figure.update_xaxes(AXIS)
    figure.update_yaxes(**AXIS, title_text="moves")
    figure.update_layout(LAYOUT, height=360, barmode="stack")
    return _piece(figure, "causes")


def _size(view: View, at: int) -> int:
    return (11 if at in view.front else 7) + RING * view.ring(at)


def _count(view: View, tied: Sequence[int]) -> str:
    """The number of points at a place, padded to be clear of the largest marker there."""
    star = STAR if view.recommended in tied else 0
    radius = max(star, *(_size(view, at) for at in tied)) / 2
    return NO_BREAK * round(radius / SPACE) + f"×{len(tied)}"


def _lines_over(view: View) -> dict[str, int]:
    """Strategy -> number of identical lines that are drawn later."""
    lines = {strategy: view.runs[at].timeline.max_best for strategy, at in view.chosen.items()}
    names = list(lines)
    return {
        name: sum(lines[later] == lines[name] for later in names[at + 1 :]) for at, name in enumerate(names)
    }  # fmt: skip


def _hover(view: View, at: int) -> str:
    """The hover text of a point, or of all points at its place."""
    point, tied = view.results[at], view.points_beside(at)
    if len(tied) > 1:
        named = [view.label_of(one) for one in tied[:MOST_NAMED]]
        more = [f"and {len(tied) - MOST_NAMED} more"] if len(tied) > MOST_NAMED else []
        title, rows = f"{len(tied)} points here", [*named, *more]
    else:
        title = point.strategy
        rows = [view.knob_text(name, value) for name, value in sorted(point.knobs.items(), key=lambda knob: knob[0])]
    figures = [
        f"imbalance {point.max_best_mean:.3f}, at the end {point.max_best_end:.3f}, worst {point.max_best_worst:.3f}",
        f"{point.moves_balance} moves for balance, {view.churn[at]:.3f} of a bundle a day",
        f"{point.thrash_pct:.1f} % moved to and fro, overload for {duration_text(point.overload_minutes * MINUTE_MS)}",
    ]
    return "<br>".join([f"<b>{escape(title)}</b>", *map(escape, [*rows, *figures])])


def _piece(figure: go.Figure, name: str) -> str:
    shown = {"displaylogo": False, "responsive": True}
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=shown))
