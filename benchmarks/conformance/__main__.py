"""`python -m benchmarks.conformance FILE`: runs Pulsar's own cases against Ballast."""

from __future__ import annotations

import sys

from benchmarks.conformance.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
