"""The demo's own figures: from skew to relief, from typing to the first transfer. `python -m benchmarks skew_to_relief`

Runs `ballast demo --headless --json` as a user would and reads its last line.
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
    """One run of the demo: it has no smaller version that still shows relief."""
    minutes = "3" if quick else "5"
    argv = [sys.executable, "-m", "controller.cli.main", "demo", "--headless", "--json", "--minutes", minutes]
    done = subprocess.run([*argv, "--dir", str(folder)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "told.txt").write_text(done.stderr)  # the steps, with their times
    figures = parse(done.stdout, done.stderr)
    told = {name: value for name, value in figures.items() if name != "tables"}  # where they lay is no figure
    return Result("skew_to_relief", told, TARGETS, broken(figures, done.returncode))


def parse(out: str, told: str) -> dict[str, Any]:
    """The summary: the last line of the output. Raises ProcessFailed with what was told when there is none."""
    lines = out.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        tail = "\n".join(told.strip().splitlines()[-TAIL_LINES:])
        raise ProcessFailed(f"the demo printed no summary; it said:\n{tail}")
    return found


def broken(figures: dict[str, Any], code: int) -> list[str]:
    """What makes the run worthless: the demo's own verdict, or a figure that it never got."""
    found = [f"the demo ended with {code}: {figures.get('invariants')}"] if code else []
    return found + [f"the demo did not see {t.path}" for t in TARGETS if figures.get(t.path) is None]
