"""Figures for documents, drawn from benchmarks/results/. `python -m benchmarks.pages.plots`

The stacked bars show means, because only means add up: those of all events and of the slowest twentieth.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.measure.control.latency_chain import STEPS
from benchmarks.measure.figures import RESULTS
from controller.process.paths import ROOT

IMAGES = ROOT / "docs" / "images"
SCENARIOS = {"control_alone": "control alone", "heartbeats": "500 brokers' heartbeats", "with_loads": "loads running"}
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999933", "#bbbbbb")  # Tol's bright


def control_path(figures: Mapping[str, Any], file: Path) -> None:
    """Draw where an event's milliseconds go, stacked by step, with two bars for each scenario."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bars = [
        (f"{title}\n{what}", found["events_ms"], key)
        for name, title in SCENARIOS.items()
        if (found := figures.get(name)) is not None
        for key, what in (("mean", "mean of all"), ("mean_of_slowest", "mean of the slowest 5 %"))
    ]
    plot, axes = plt.subplots(figsize=(9, 0.62 * len(bars) + 1.4))
    left = [0.0] * len(bars)
    for step, colour in zip(STEPS, COLOURS, strict=True):
        widths = [float(rows[step][key]) for _, rows, key in bars]
        axes.barh([label for label, _, _ in bars], widths, left=left, label=step, color=colour, height=0.62)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds from an event's sending to its entry's application by an agent")
    axes.legend(ncols=len(STEPS), loc="lower center", bbox_to_anchor=(0.42, 1.0), frameon=False, fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(file, bbox_inches="tight", dpi=130)
    plt.close(plot)


def decide_growth(figures: Mapping[str, Any], file: Path) -> None:
    """Draw how long `steady` takes to decide, by size, on two logarithmic axes, with a line of linear growth."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = figures["sizes"]
    bundles = [row["bundles"] for row in sizes]
    plot, axes = plt.subplots(figsize=(7, 4))
    for key, label, colour in (
        ("worst_ms", "slowest round", COLOURS[4]),
        ("moving_p50_ms", "rounds that moved something, median", COLOURS[3]),
        ("p50_ms", "all rounds, median", COLOURS[0]),
    ):
        axes.plot(bundles, [row[key] for row in sizes], marker="o", label=label, color=colour)
    linear = [sizes[0]["p50_ms"] * count / bundles[0] for count in bundles]
    axes.plot(bundles, linear, linestyle=":", label="linear", color=COLOURS[7])
    axes.set(xscale="log", yscale="log", xlabel="bundles (a hundred a broker)", ylabel="milliseconds to decide")
    axes.legend(frameon=False, fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(file, bbox_inches="tight", dpi=130)
    plt.close(plot)


def field_players(figures: Mapping[str, Any], file: Path) -> None:
    """Draw every player's balance against its moves over the seven scenarios; the oracle's by tolerance is a line."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    plot, axes = plt.subplots(figsize=(8, 4.5))
    axes.set(xscale="log", yscale="log", xlabel="moves in the seven scenarios together")
    axes.set_ylabel("worst broker above the best achievable, mean, %")
    line = [_point(found) for found in figures["frontier"].values()]
    axes.plot(*zip(*line, strict=True), color=COLOURS[7], marker=".", label="oracle, tolerances 2 to 10 %", zorder=1)
    players: dict[tuple[float, float], list[str]] = {}
    for player, found in figures["seven"].items():
        players.setdefault(_point(found), []).append(player)
    for point, names in players.items():
        axes.scatter(*point, color=COLOURS[{"steady": 4, "greedy": 2, "oracle": 7}.get(names[0], 0)], zorder=2)
        axes.annotate(", ".join(names), point, xytext=(5, 4), textcoords="offset points", size="small")
    for axis, ticks in ((axes.xaxis, (200, 300, 500, 1000, 2000)), (axes.yaxis, (10, 15, 20, 30, 50, 80))):
        axis.set_ticks(ticks, [str(tick) for tick in ticks])
        axis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize="small")
    file.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(file, bbox_inches="tight", dpi=130)
    plt.close(plot)


def _point(found: Mapping[str, float]) -> tuple[float, float]:
    return found["moves"], round(100 * (found["mean"] - 1), 1)


DRAWINGS = {
    "control_stages": ("control_path", control_path),
    "decide_speed": ("decide_growth", decide_growth),
    "strategy_field": ("strategy_field", field_players),
}


def main() -> int:
    """Draw the figures that have results. Returns 1 if some results are missing."""
    missing = [name for name in DRAWINGS if not (RESULTS / f"{name}.json").exists()]
    for name in missing:
        print(f"no figures of {name}: run `make bench ARGS={name}` first", file=sys.stderr)
    for name, (image, draw) in DRAWINGS.items():
        if name not in missing:
            draw(json.loads((RESULTS / f"{name}.json").read_text())["figures"], IMAGES / f"{image}.png")
            print(f"written: {IMAGES / image}.png")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
