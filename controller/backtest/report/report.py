"""Writes the report of a backtest: report.html, pareto.png, timeline.png, causes.png and recommendation.yaml.

The same points in the same order give the same bytes. Imports plotly and matplotlib when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.backtest.choose.recommend import Recommendation
from controller.backtest.point.result import PointRun
from controller.backtest.report.configuration import snippet
from controller.backtest.report.knobs import KnobNames
from controller.backtest.report.page import page
from controller.backtest.report.recorded import SOURCE
from controller.backtest.report.view import View
from controller.domain.settings.policy import PolicySettings

REPORT, CONF = "report.html", "recommendation.yaml"
PARETO, TIMELINE, CAUSES = "pareto.png", "timeline.png", "causes.png"


def write_report(
    out: Path,
    runs: Sequence[PointRun],
    base: PolicySettings,
    about: Mapping[str, Any],
    names: KnobNames | None = None,
    unfinished: int = 0,
) -> Recommendation:
    """Write the five files into `out`; return the recommendation.

    `runs`: the finished points in the order of the grid; `base`: the configuration, for ties and for knobs that were
    not varied; `about`: what was run, as names and values to show, including SOURCE; `names`: of knobs, as given;
    `unfinished`: points that an interrupt left out.
    """
    from controller.backtest.report import charts  # plotly and matplotlib take a second to import
    from controller.backtest.report.pictures import draw_causes, draw_pareto, draw_timeline

    view = View(runs, base, names or KnobNames(), unfinished)
    text = snippet(view.recommendation, _title(view, about))
    pieces = {
        "pareto": charts.pareto_chart(view),
        "timeline": charts.timeline_chart(view),
        "causes": charts.causes_chart(view),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / REPORT).write_text(page(view, about, text, pieces, charts.library()), encoding="utf-8")
    (out / CONF).write_text(text, encoding="utf-8")
    draw_pareto(view, out / PARETO)
    draw_timeline(view, out / TIMELINE)
    draw_causes(view, out / CAUSES)
    return view.recommendation


def _title(view: View, about: Mapping[str, Any]) -> str:
    source = about.get(SOURCE, "recorded load")
    if view.recommended is None:
        return f"`ballast backtest` on {source} recommends nothing; what is set below is as configured."
    return f"Recommended by `ballast backtest` on {source}."
