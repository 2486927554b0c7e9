"""`spark-submit jobs/maintain.py --conf FILE`: maintenance of the bulk tables, distributed. See docs/operations.md."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from jobs.maintain_job import main

    sys.exit(main(sys.argv[1:]))
