"""Writes the report of a backtest: report.html, pareto.png, timeline.png, causes.png and recommendation.yaml.

The same points in the same order give the same bytes. Imports plotly and matplotlib when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.backtest.choose.recommend import Recommendation
from controller.backtest.point.result import PointRun
from controller.backtest.report.configuration import snippet
from controller.backtest.report.page import page
from controller.backtest.report.view import View
from controller.domain.settings.policy import PolicySettings

REPORT, CONF = "report.html", "recommendation.yaml"
PARETO, TIMELINE, CAUSES = "pareto.png", "timeline.png", "causes.png"
SOURCE = "reports"  # the row of `about` that names what was replayed


def write_report(
    out: Path, runs: Sequence[PointRun], base: PolicySettings, about: Mapping[str, object]
) -> Recommendation:
    """Write the five files into `out`; return the recommendation.

    `runs`: the finished points in the order of the grid; `base`: the configuration, for ties and for knobs that were
    not varied; `about`: what was run, as names and values to show, including SOURCE.
    """
    from controller.backtest.report import charts  # plotly and matplotlib take a second to import
    from controller.backtest.report.pictures import draw_causes, draw_pareto, draw_timeline

    view = View(runs, base)
    text = snippet(view.recommendation, f"Recommended by `ballast backtest` on {about.get(SOURCE, 'recorded load')}.")
    pieces = {
        "pareto": charts.pareto_chart(view),
        "timeline": charts.timeline_chart(view),
        "causes": charts.causes_chart(view),
    }
    out.mkdir(parents=True, exist_ok=True)
    shown = {name: str(value) for name, value in about.items()}
    (out / REPORT).write_text(page(view, shown, text, pieces, charts.library()), encoding="utf-8")
    (out / CONF).write_text(text, encoding="utf-8")
    draw_pareto(view, out / PARETO)
    draw_timeline(view, out / TIMELINE)
    draw_causes(view, out / CAUSES)
    return view.recommendation
