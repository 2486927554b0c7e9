"""`spark-submit jobs/backtest.py --out DIR …`: the points of a backtest as Spark tasks. See docs/backtests.md."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from jobs.backtest_job import main

    sys.exit(main(sys.argv[1:]))
