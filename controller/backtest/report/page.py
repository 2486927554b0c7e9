"""The HTML page of a backtest's report: text, tables and interactive plots.

All input is escaped. A section without data says so. The page needs no network: it contains style, code and data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from controller.backtest.choose.rationale import format_value
from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult
from controller.backtest.report.view import View

STYLE = """
body { font-family: system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { cursor: pointer; border-bottom: 2px solid #888; vertical-align: bottom; } th.word, td.word { text-align: left; }
.wide { overflow-x: auto; } #scoreboard { width: 100%; font-size: 0.8rem; }
#scoreboard th, #scoreboard td { padding: 0.2rem 0.3rem; } #scoreboard th { white-space: normal; }
tr.front td { background: #f2f6fb; } tr.recommended td { background: #dcebd8; }
pre { background: #f6f6f6; padding: 0.8rem; overflow-x: auto; } code { background: #f3f3f3; padding: 0 0.2rem; }
#about td { white-space: normal; overflow-wrap: anywhere; } #about td:first-child { white-space: nowrap; }
p.none { color: #777; } p.confidence { font-weight: 600; }
dt { font-weight: 600; margin-top: 0.4rem; } dd { margin-left: 1.2rem; }
"""
# Click on a heading: sort by it, click again: the other way round. Empty cells stay last.
SORT = """
for (const head of document.querySelectorAll("#scoreboard th")) head.addEventListener("click", () => {
  const body = document.querySelector("#scoreboard tbody"), at = head.cellIndex;
  const down = head.dataset.down = head.dataset.down === "1" ? "0" : "1";
  const key = row => row.cells[at].dataset.value;
  const order = (a, b) => (a === "") - (b === "") || (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b) *
    (a === "" || b === "" || down === "1" ? 1 : -1);
  [...body.rows].sort((a, b) => order(key(a), key(b))).forEach(row => body.append(row));
});
"""
FIGURES: Mapping[str, tuple[str, str]] = {  # field: heading and what it means
    "max_best_mean": ("max/best mean", "highest load of a broker by the best achievable one, mean of all steps"),
    "max_best_end": ("end", "the same over the last tenth of the steps"),
    "max_best_worst": ("worst", "the same in the worst step"),
    "cv_mean": ("variation", "coefficient of variation of the brokers' load, mean of all steps"),
    "thrash_pct": ("thrash %", "how far load was moved to and fro, in percent of the range it was placed in"),
    "moves_addition": ("additions", "moves to brokers that had been empty a short while before"),
    "moves_removal": ("removals", "placements of what brokers left behind that went away"),
    "moves_balance": ("balance", "all other moves"),
    "splits": ("splits", "bundles cut in two"),
    "useless_rate": ("useless", "share of the moves by rounds that gained nothing"),
    "overload_minutes": ("overload min", "broker-minutes at a load of 85 % or more"),
    "unavailable_bundle_s": ("unavailable s", "bundle-seconds without an owner that serves"),
    "error_p50": ("error p50", "how far predictions of a move's outcome were off, in parts of the level: median"),
    "error_p90": ("error p90", "the same, 90th percentile"),
    "n_checked": ("checked", "predictions that could be compared with what came of them"),
}


def page(view: View, about: Mapping[str, str], snippet: str, charts: Mapping[str, str], library: str) -> str:
    """The whole page. `charts`: pieces by name; `library`: the code that draws them; `about`: rows for the top."""
    something = bool(view.results)
    sections = [
        ("Recommendation", _recommendation(view, snippet)),
        ("Imbalance against churn", charts["pareto"] if something else _none("No finished point: nothing to plot.")),
        ("Scoreboard", _scoreboard(view)),
        ("Over time", charts["timeline"] if _any_steps(view) else _none("No point has a step: nothing to plot.")),
        ("Moves by cause", charts["causes"] if _any_moves(view) else _none("Nothing was moved at any chosen point.")),
        ("What the figures mean", _meanings()),
    ]
    drawn = "".join(f"<h2>{title}</h2>\n{body}\n" for title, body in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Backtest</title>'
        f"<style>{STYLE}</style>\n<script>{library}</script></head>\n<body>\n<h1>Backtest</h1>\n{_about(view, about)}\n"
        f"{drawn}<script>{SORT}</script></body></html>\n"
    )


def _about(view: View, about: Mapping[str, str]) -> str:
    rows = {**about, "points": str(len(view.results)), "hours": f"{view.lasted_ms / 3_600_000:.2f}"}
    cells = "".join(
        f'<tr><td class="word">{escape(name)}</td><td class="word">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f'<table id="about">{cells}</table>'


def _recommendation(view: View, snippet: str) -> str:
    found = view.recommendation
    sure = str(found.confidence)
    body = f'<p class="confidence">{escape(sure[0].upper() + sure[1:])}</p>' + _list(found.reasons)
    body += f"<p>To know more:</p>{_list(found.advice)}" if found.advice else ""
    settings = "\n".join(line for line in snippet.splitlines() if not line.startswith("#"))
    return f"<pre>{escape(settings)}</pre>{body}" if settings else body


def _list(sentences: Sequence[str]) -> str:
    items = (re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(sentence)) for sentence in sentences)
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _scoreboard(view: View) -> str:
    if not view.results:
        return _none("No point has finished.")
    knobs = sorted({name for result in view.results for name in result.knobs})
    heads = "".join(f'<th class="word">{_breakable(name)}</th>' for name in ("strategy", *knobs))
    heads += "".join(f'<th title="{escape(means)}">{heading}</th>' for heading, means in FIGURES.values())
    chosen = view.recommendation.overall
    rows = []
    for at, result in enumerate(view.results):
        marks = ["front"] if at in view.front else []
        marks += ["recommended"] if chosen is not None and at == chosen.chosen else []
        rows.append(f'<tr class="{" ".join(marks)}">{_row(result, knobs)}</tr>')
    note = "<p>Blue: on the Pareto front. Green: recommended. Click on a heading to sort.</p>"
    body = "\n".join(rows)
    return (
        f'{note}<div class="wide"><table id="scoreboard"><thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _breakable(name: str) -> str:
    """The name of a knob with line breaks allowed after dots and underscores, to keep headings narrow."""
    return re.sub(r"([._])", r"\1<wbr>", escape(name))


def _row(result: PointResult, knobs: Sequence[str]) -> str:
    words = [result.strategy, *(format_value(result.knobs[name]) if name in result.knobs else "" for name in knobs)]
    cells = [f'<td class="word" data-value="{escape(word)}">{escape(word)}</td>' for word in words]
    for name in FIGURES:
        value = getattr(result, name)
        cells.append(f'<td data-value="{"" if value is None else value}">{_figure(value)}</td>')
    return "".join(cells)


def _figure(value: Value) -> str:
    if value is None:
        return "–"
    return f"{value:.{3 if abs(value) < 10 else 1}f}" if isinstance(value, float) else str(value)


def _meanings() -> str:
    pairs = "".join(f"<dt>{heading}</dt><dd>{escape(means)}</dd>" for heading, means in FIGURES.values())
    return f"<dl>{pairs}</dl>"


def _any_steps(view: View) -> bool:
    return any(view.runs[at].timeline.at_ms for at in view.chosen.values())


def _any_moves(view: View) -> bool:
    return any(view.results[at].moves for at in view.chosen.values())


def _none(text: str) -> str:
    return f'<p class="none">{text}</p>'
