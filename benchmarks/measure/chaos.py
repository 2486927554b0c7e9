"""`make chaos`: plays `controller.testbed.chaos` and keeps the figures of a full run beside those of the benchmarks.

A shorter run shows too little to be kept; it is judged all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure.figures import RESULTS, write
from benchmarks.measure.result import Result, Target
from benchmarks.pages import performance as page
from controller.testbed.chaos.__main__ import arguments, play, show
from controller.testbed.chaos.verdict import FAILOVER_BEYOND_LEASE_MS, FULL_MINUTES, GAP_P99_MS, Verdict

NAME = "chaos"


def main(argv: Sequence[str]) -> int:
    """Run it with the options of `python -m controller.testbed.chaos`; exit code 1 if anything was wrong."""
    given = arguments(argv)
    verdict = play(given)
    if keep(verdict) is not None:
        page.refresh()
    show(verdict, given.json)  # last, for whoever reads the last line
    return 1 if verdict.wrong else 0


def keep(verdict: Verdict, folder: Path = RESULTS) -> Path | None:
    """Write the figures of a full run, with machine and date; return the file, None for a shorter run."""
    if verdict.figures["minutes"] < FULL_MINUTES:
        return None
    most_ms = verdict.figures["lease_ms"] + FAILOVER_BEYOND_LEASE_MS
    targets = [
        Target("failover_ms.worst", most_ms, "ms"),
        Target("calm_gap_beyond_interval_ms.p99", GAP_P99_MS, "ms"),
    ]
    return write(NAME, Result(NAME, verdict.figures, targets, verdict.wrong).document(), folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
