"""Measures the Pulsar demo: from skew to the first move, and the whole. `python -m benchmarks pulsar_demo`

It runs `ballast pulsar demo --headless --json` as a user would and stores the last line. Twelve minutes, on a real
Pulsar cluster, so it only runs when it is named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure.clients.skew_to_relief import parse
from benchmarks.measure.result import Result, Target

TARGETS = [Target("skew_to_first_move_s", 180, "s"), Target("took_s", 720, "s")]
TIMEOUT_S = 1_200


def run(folder: Path, quick: bool = False) -> Result:
    """Run the demo once. `quick`: only until its first skew is relieved."""
    argv = [sys.executable, "-m", "controller.cli.main", "pulsar", "demo", "--headless", "--json"]
    argv += ["--dir", str(folder), *(["--short"] if quick else [])]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steps.txt").write_text(done.stderr)
    figures = parse(done.stdout, done.stderr)
    return Result("pulsar_demo", figures, TARGETS, problems(figures, done.returncode))


def problems(figures: dict[str, Any], code: int) -> list[str]:
    """What invalidates the run: messages lost or out of order, or an effect that did not come in time."""
    counts = f"{figures.get('lost')} lost, {figures.get('reordered')} out of order"
    return [
        *([f"the demo ended with {code}: {counts}"] if code else []),
        *(f"the demo did not see {what}" for what in figures.get("not_seen", ())),
    ]
