"""`ballast …` as an operator types it: a process of its own, with its output and exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from controller.process.paths import ROOT

BALLAST = (sys.executable, "-m", "controller.cli.main")


def ballast(*arguments: str, timeout_s: float = 600.0) -> subprocess.CompletedProcess[str]:
    """Run it to its end. The limit only catches a hang."""
    return subprocess.run(
        [*BALLAST, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT
    )


def json_lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What it printed with `--json`; fails with its errors when it did not end well."""
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
