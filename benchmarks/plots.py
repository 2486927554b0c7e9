"""Figures for docs/performance.md, drawn from benchmarks/results/. `python -m benchmarks.plots`

The stacked bars are means, because only means add up: of all events, and of the slowest twentieth.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.figures import RESULTS
from benchmarks.latency_chain import STEPS
from controller.ops.paths import ROOT

IMAGES = ROOT / "docs" / "images"
SCENARIOS = {"control_alone": "control alone", "heartbeats": "500 brokers' heartbeats", "with_loads": "loads running"}
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#999933", "#bbbbbb")  # Tol's bright


def control_path(figures: Mapping[str, Any], file: Path) -> None:
    """Where an event's milliseconds go, stacked by step; two bars a scenario."""
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


def main() -> int:
    """Draw what there are results for."""
    source = RESULTS / "control_stages.json"
    if not source.exists():
        print(f"{source} is missing: run `make bench ARGS=control_stages` first", file=sys.stderr)
        return 1
    target = IMAGES / "control_path.png"
    control_path(json.loads(source.read_text())["figures"], target)
    print(f"written: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
