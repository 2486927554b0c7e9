"""Measures commands on a large cluster, start of Python included. `python -m benchmarks command_times`

The tables are those of `page_views`: 1,000 brokers, 100,000 bundles, a journal of 1,000,000 entries. Each command runs
REPEATS times in a fresh process; the result is the median in seconds. `plan` runs alone and beside a page of the same
tables; the page decides anew each time, since its answer is kept for five seconds only. Also: what the modules of each
command take to import, by turns, so that a second in which the machine has other work does not fall on one of them.
The sources are compiled before, as `make setup` does and pip with an installed package.
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

import controller
import schemas
from benchmarks.measure.result import NotMeasured, Result, Target
from benchmarks.measure.ui.large_cluster import LargeCluster, Size
from benchmarks.measure.ui.page_views import QUICK
from controller.cli.main import COMMANDS
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.testbed.kafka import free_ports

REPEATS, TURNS = 5, 11
BALLAST = (sys.executable, "-m", "controller.cli.main")
NOWHERE = "kafka.bootstrap_servers=127.0.0.1:1"
KEPT_S = 5.5  # longer than the page keeps a plan
BEGINS_WITHIN_S = 120.0
IMPORTED = ("status", "explain", "plan", "brokers", "journal")
TARGETS = [
    Target("help_s", 0.4, "s"),
    *(Target(f"imports_s.{name}", 0.4, "s") for name in IMPORTED),
    Target("status_s", 1.0, "s"),
    Target("explain_s", 1.0, "s"),
    Target("plan_s", 4.0, "s"),
    Target("plan_by_page_s", 1.0, "s"),
]


def run(folder: Path, quick: bool) -> Result:
    """Write the tables and time the commands."""
    for package in (controller, schemas):
        compileall.compile_dir(Path(str(package.__file__)).parent, quiet=1)
    size = QUICK if quick else Size()
    large = LargeCluster(TableRoot(folder / "tables"), size, wall_ms())
    large.write()
    port = free_ports(1)[0]
    sets = [f"tables.root={large.root.root}", f"ui.port={port}", NOWHERE]
    options = [word for one in sets for word in ("--set", one)]
    figures: dict[str, Any] = {
        "brokers": size.brokers, "bundles": size.bundles, "entries": size.entries,
        "help_s": _median([*BALLAST, "--help"]),
        "imports_s": _import_all(IMPORTED),
        "status_s": _median([*BALLAST, "status", "--offline", *options], codes=(0, 1)),
        "explain_s": _median([*BALLAST, "explain", large.bundles[len(large.bundles) // 2], *options]),
        "plan_s": _median([*BALLAST, "plan", *options]),
        "plan_by_page_s": _beside_a_page(options, port),
    }  # fmt: skip
    return Result("command_times", figures, TARGETS)


def _median(command: Sequence[str], codes: Sequence[int] = (0,), pause_s: float = 0.0) -> float:
    """Seconds of a run. `codes`: that the command may end with. Raises NotMeasured if it fails."""
    times_s = []
    for _ in range(REPEATS):
        time.sleep(pause_s)
        began_s = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        times_s.append(time.perf_counter() - began_s)
        if done.returncode not in codes:
            raise NotMeasured(f"{' '.join(command[:6])} ended with {done.returncode}: {done.stderr[-500:]}")
    return round(statistics.median(times_s), 3)


def _import_all(commands: Sequence[str]) -> dict[str, float]:
    """What importing takes beyond the start of Python, as `ballast` does it: the median of TURNS."""
    times_s: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TURNS):
        for name in commands:
            imports = f"import controller.cli.main as m; m.import_quickly({COMMANDS[name].module!r})"
            code = f"import time; t = time.perf_counter(); {imports}; print(time.perf_counter() - t)"
            told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            times_s[name].append(float(told.stdout))
    return {name: round(statistics.median(taken), 3) for name, taken in times_s.items()}


def _beside_a_page(options: Sequence[str], port: int) -> float:
    command = [*BALLAST, "ui", "--port", str(port), *options]
    page = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_follows(port)
        return _median([*BALLAST, "plan", *options], pause_s=KEPT_S)
    finally:
        page.terminate()
        page.wait(30)


def _wait_until_it_follows(port: int) -> None:
    deadline = time.monotonic() + BEGINS_WITHIN_S
    with httpx.Client(trust_env=False, timeout=BEGINS_WITHIN_S) as client:
        while time.monotonic() < deadline:
            try:
                if client.get(f"http://127.0.0.1:{port}/api/now").is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
    raise NotMeasured(f"the page did not begin within {BEGINS_WITHIN_S:g} s")
