"""Plots of simulated runs: load of the brokers, balance and moves over time. Imports matplotlib: import it lazily."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import matplotlib
import numpy as np

from controller.sim.simulation import Outcome

COLOURS = {"balance": "#4477aa", "failover": "#ee6677", "drain": "#ccbb44", "split": "#228833"}
_GREY = "#999999"


def draw(outcome: Outcome, file: Path) -> Path:
    """Write three stacked charts as PNG; return the file."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    track, figures = outcome.track, outcome.figures
    minutes = np.array(track.at_ms) / 60_000
    plot, (load, balance, moves) = plt.subplots(3, 1, figsize=(9, 8), sharex=True, height_ratios=(3, 2, 1))
    for broker, series in zip(outcome.brokers, track.loads().T * 100, strict=True):
        load.plot(minutes, series, linewidth=0.9, label=broker)
    load.plot(minutes, np.array(track.best) * 100, color="black", linestyle="--", linewidth=1, label="best achievable")
    load.set_ylabel("load of brokers, %")
    load.legend(ncols=1, fontsize="x-small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    load.set_title(f"{figures.strategy}, seed {outcome.seed}", fontsize="medium")
    balance.plot(minutes, track.max_best(), label="highest / best achievable", color=COLOURS["balance"])
    balance.plot(minutes, track.max_mean(), label="highest / mean", color=_GREY, linewidth=0.9)
    balance.legend(fontsize="x-small", frameon=False)
    bottom = np.zeros(len(minutes))
    for cause in figures.moves:
        count = Counter(move.at_ms for move in track.moves if move.cause == cause)
        heights = np.array([count[at] for at in track.at_ms], float)
        if heights.any():
            width = track.tick_ms / 60_000
            moves.bar(minutes, heights, width, bottom, color=COLOURS.get(cause, _GREY), label=cause)
            bottom += heights
    moves.set_ylabel("moves")
    moves.set_xlabel("minutes")
    if bottom.any():
        moves.legend(fontsize="x-small", frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(file, bbox_inches="tight", dpi=110)
    plt.close(plot)
    return file
