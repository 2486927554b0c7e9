"""Measures the demo: from skew to relief, from typing to the first transfer. `python -m benchmarks skew_to_relief`

It runs `ballast demo --headless --json` as a user would and reads the last line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure.result import Result, Target
from controller.process.children import ProcessFailed

TARGETS = [Target("skew_to_relief_s", 90, "s"), Target("first_transfer_s", 120, "s")]
TIMEOUT_S = 1_200
TAIL_LINES = 15


def run(folder: Path, quick: bool = False) -> Result:
    """Run the demo once; no smaller version shows relief."""
    minutes = "3" if quick else "5"
    argv = [sys.executable, "-m", "controller.cli.main", "demo", "--headless", "--json", "--minutes", minutes]
    done = subprocess.run([*argv, "--dir", str(folder)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steps.txt").write_text(done.stderr)  # with their times
    figures = parse(done.stdout, done.stderr)
    stored = {name: value for name, value in figures.items() if name != "tables"}  # a path is no figure
    return Result("skew_to_relief", stored, TARGETS, problems(figures, done.returncode))


def parse(out: str, err: str) -> dict[str, Any]:
    """The summary, which is the last line of the output. Raises ProcessFailed with the end of `err` without one."""
    lines = out.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        tail = "\n".join(err.strip().splitlines()[-TAIL_LINES:])
        raise ProcessFailed(f"the demo printed no summary; it said:\n{tail}")
    return found


def problems(figures: dict[str, Any], code: int) -> list[str]:
    """What invalidates the run: the demo's own verdict, or a missing figure."""
    found = [f"the demo ended with {code}: {figures.get('invariants')}"] if code else []
    return found + [f"the demo did not see {t.path}" for t in TARGETS if figures.get(t.path) is None]
