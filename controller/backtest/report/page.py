"""The HTML page of a backtest's report: what to do, what that would change, plots, the scoreboard.

All input is escaped. A section without data says so. The page needs no network: it contains style, code and data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from controller.backtest.choose.verdict import Action
from controller.backtest.report.look import SCRIPT, STYLE
from controller.backtest.report.recorded import recorded_text, run_rows
from controller.backtest.report.scoreboard import changes, meanings, scoreboard
from controller.backtest.report.view import View

PLOTS = {  # piece: heading and what to see in it
    "pareto": ("Imbalance against moves", "Each mark is a point: a strategy with its settings. Lower is more even, "
               "further left moves less; on the dotted line, less of one costs more of the other."),
    "timeline": ("Over time", "The point of each strategy that the rule of the recommendation would choose. 1 is the "
                 "best that could be achieved at that moment."),
    "causes": ("Moves by cause", "Of the same points."),
}  # fmt: skip


def page(view: View, about: Mapping[str, Any], snippet: str, charts: Mapping[str, str], library: str) -> str:
    """The whole page. `charts`: pieces by name; `library`: the code that draws them; `about`: what was run."""
    missing = _missing(view)
    plots = "\n".join(
        f'<section><h2>{title}</h2>\n<p class="none">{missing.get(name) or hint}</p>'
        f"{'' if name in missing else _plot(charts[name])}</section>"
        for name, (title, hint) in PLOTS.items()
    )
    table = scoreboard(view) if view.results else '<p class="none">No point has finished.</p>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Backtest</title>'
        f"<style>{STYLE}</style>\n<script>{library}</script></head>\n<body>\n"
        f'<h1>Backtest</h1>\n<p class="recorded">{escape(recorded_text(about, view.lasted_ms))}</p>\n'
        f"{_verdict(view, snippet)}\n{plots}\n<section><h2>All points</h2>\n{table}</section>\n"
        f"<section><h2>What the figures mean</h2>{meanings()}</section>\n{_run(view, about)}\n"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _verdict(view: View, snippet: str) -> str:
    """What to do, what it would change, how sure that is, the settings, and why."""
    found = view.recommendation
    sure = str(found.confidence)
    parts = [
        f'<p class="do">{_marked(found.verdict.headline)}</p>',
        f'<p class="effect">{_marked(_capital(found.verdict.effect))}</p>',
        changes(view),
        f'<p class="confidence">{escape(_capital(sure))}</p>',
    ]
    settings = "\n".join(line for line in snippet.splitlines() if not line.startswith("#"))
    if settings and found.verdict.action is Action.CHANGE:
        parts.append(f"<pre>{escape(settings)}</pre>")
    parts.append(f"<details open><summary>Why</summary>{_list(found.reasons)}</details>")
    if found.advice:
        parts.append(f"<details open><summary>To know more</summary>{_list(found.advice)}</details>")
    return f'<section id="verdict" data-action="{found.verdict.action.value}">{"".join(parts)}</section>'


def _run(view: View, about: Mapping[str, Any]) -> str:
    rows = [("points", str(len(view.results))), *run_rows(about)]
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f'<section><h2>How it was run</h2><table id="run">{cells}</table></section>'


def _missing(view: View) -> dict[str, str]:
    """Piece -> why it is left out."""
    found = {}
    if not view.results:
        found["pareto"] = "No finished point: nothing to plot."
    if not any(view.runs[at].timeline.at_ms for at in view.chosen.values()):
        found["timeline"] = "No point has a step: nothing to plot."
    if not any(view.results[at].moves for at in view.chosen.values()):
        found["causes"] = "Nothing was moved at any chosen point."
    return found


def _plot(piece: str) -> str:
    return f'<div class="plot">{piece}</div>'


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_marked(sentence)}</li>" for sentence in sentences) + "</ul>"


def _marked(sentence: str) -> str:
    """A sentence as HTML, with what is in backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(sentence))


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
