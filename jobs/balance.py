"""`spark-submit jobs/balance.py --conf FILE`: the Spark job of Ballast. See `--help` and docs/architecture.md.

This file imports nothing at the top: the round worker's process imports its parent's main file and needs no Spark.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the job with the arguments of this process. Ends the process with the job's exit code unless that is 0.

    Also the entry point `balance` of the wheel, for platforms that take an exit with 0 for a failure.
    """
    signal.signal(signal.SIGINT, _end)  # until the job has its own handler: imports take seconds
    from jobs.balance_job import main as run_job

    code = run_job(sys.argv[1:])
    if code:
        sys.exit(code)


def _end(number: int, frame: object) -> None:
    """At once: raised among imports, an interrupt would be a traceback, or another error of a library."""
    os.write(sys.stderr.fileno(), b"ballast: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
