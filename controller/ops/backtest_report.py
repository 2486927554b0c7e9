"""The files that a backtest leaves for people: report.html, pareto.png, timeline.png, causes.png, recommendation.yaml.

The same points in the same order give the same bytes. Imports plotly and matplotlib when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.domain.settings import PolicySettings
from controller.ops.backtest_conf import snippet
from controller.ops.backtest_page import page
from controller.ops.backtest_view import View
from controller.sim.backtest.recommend import Recommendation
from controller.sim.backtest.result import PointRun

REPORT, CONF = "report.html", "recommendation.yaml"
PARETO, TIMELINE, CAUSES = "pareto.png", "timeline.png", "causes.png"
SOURCE = "reports"  # the row of `about` that names what was replayed


def write_report(
    out: Path, runs: Sequence[PointRun], base: PolicySettings, about: Mapping[str, object]
) -> Recommendation:
    """Write the five files into `out`; returns what they recommend.

    `runs`: the finished points in the order of the grid; `base`: how the cluster is configured, for ties and for knobs
    that no point varied; `about`: what was run, as names and values to be shown, SOURCE among them.
    """
    from controller.ops import backtest_charts as charts  # plotly and matplotlib take a second to import
    from controller.ops.backtest_pictures import draw_causes, draw_pareto, draw_timeline

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
