"""`spark-submit jobs/balance.py --conf FILE`: the Spark job of Ballast. See `--help` and docs/architecture.md.

This file imports nothing at the top: the round worker's process imports its parent's main file and needs no Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from jobs.balance_job import main

    sys.exit(main(sys.argv[1:]))
