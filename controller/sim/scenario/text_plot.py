"""Plots a series of a run as five lines of text, for scenario files. `cli/sim_plots.py` draws PNGs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.domain.errors import ConfigError
from controller.sim.load.cost_model import Floats
from controller.sim.simulation import Outcome

HEIGHT = 5


def _moves(outcome: Outcome) -> Floats:
    track = outcome.track
    at = [move.at_ms for move in track.moves]
    return np.asarray(np.searchsorted(np.sort(np.array(at, np.int64)), np.array(track.at_ms), side="right"), float)


STATS: dict[str, Callable[[Outcome], Floats]] = {
    "max_mean": lambda outcome: outcome.track.max_mean(),
    "max_best": lambda outcome: outcome.track.max_best(),
    "highest": lambda outcome: np.nanmax(outcome.track.loads(), axis=1),
    "lowest": lambda outcome: np.nanmin(outcome.track.loads(), axis=1),
    "moves": _moves,
}


def text_plot(outcome: Outcome, stat: str, width: int = 60) -> str:
    """The highest value of each of `width` equal parts of the run, from left to right."""
    if not 10 <= width <= 200:
        raise ConfigError(f"width={width} of a plot: from 10 to 200")
    values = STATS[stat](outcome)
    parts = np.array([part.max() for part in np.array_split(values, min(width, len(values)))])
    low, high = float(parts.min()), float(parts.max())
    span = high - low or 1.0
    filled = np.rint((parts - low) / span * HEIGHT).astype(int)
    rows = []
    for level in range(HEIGHT, 0, -1):
        edge = f"{high:8.2f}" if level == HEIGHT else f"{low:8.2f}" if level == 1 else " " * 8
        rows.append(f"{edge} |" + "".join("#" if count >= level else " " for count in filled).rstrip())
    minutes = outcome.scenario.duration_ms // 60_000
    return "\n".join([f"{stat}, 0 to {minutes} min, highest of each part", *rows])
