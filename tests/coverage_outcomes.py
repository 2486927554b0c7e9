"""Writes how marked tests ended, for docs/coverage.md, when the run is asked to: BALLAST_COVERAGE_OUTCOMES=1.

With several test processes the one that distributes the tests hears of every outcome and writes alone. Outcomes of
tests that the run left out stay as they were.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.pages.coverage_markers import MARKER, OUTCOMES, merged, read_outcomes, scan, write_outcomes

ENVIRONMENT = "BALLAST_COVERAGE_OUTCOMES"
_WEIGHT = {"skipped": 0, "passed": 1, "failed": 2}


class Outcomes:
    """A pytest plugin. Of a test's phases and parameters the worst counts, but a skip less than a pass."""

    def __init__(self, path: Path = OUTCOMES) -> None:
        self.path = path
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called in the distributing process for the reports of all others too."""
        if MARKER not in report.keywords or (report.when in ("setup", "teardown") and report.passed):
            return
        test = report.nodeid.partition("[")[0]
        before = self.found.get(test, report.outcome)
        self.found[test] = max(before, report.outcome, key=_WEIGHT.__getitem__)

    def pytest_sessionfinish(self) -> None:
        """Keep what is known of tests that were not run this time and still carry the marker."""
        write_outcomes(merged(read_outcomes(self.path), self.found, scan()), self.path)


def register_if_asked(config: pytest.Config) -> None:
    """Only when the environment asks for it, and never in a process that merely carries tests out."""
    if os.environ.get(ENVIRONMENT) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(), "coverage-outcomes")
