"""The metrics of the loads query: an age grows while nothing comes, every lost report is counted."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from prometheus_client import CollectorRegistry

from controller.loads.metrics import LoadsMetrics
from controller.process.clock import wall_ms
from jobs.loads_query import LoadsQuery


def test_the_newest_report_grows_older_until_the_next_one() -> None:
    registry = CollectorRegistry()
    metrics = LoadsMetrics(registry)

    def lag_s() -> float:
        return registry.get_sample_value("ballast_loads_lag_seconds") or 0.0

    assert lag_s() == 0.0, "nothing was read yet"
    metrics.note_newest(wall_ms() - 90_000)
    first = lag_s()
    assert first >= 90.0
    time.sleep(0.01)
    assert lag_s() > first
    metrics.note_newest(wall_ms() + 60_000)
    assert lag_s() == 0.0, "of an agent whose clock is ahead"


class ShortMemory:
    """A query that keeps Spark's reports of its last three batches, each of which covers ten records."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self._jsq = SimpleNamespace(recentProgress=lambda: self.batches[-3:])

    def run_batch(self, lost: int) -> None:
        number = len(self.batches)
        offsets = {"startOffset": {"t": {"0": 10 * number}}, "endOffset": {"t": {"0": 10 * number + 10}}}
        found = {"batchId": number, "numInputRows": 10 - lost, "sources": [offsets]}
        self.batches.append(SimpleNamespace(json=lambda: json.dumps(found)))


def test_reports_that_were_lost_count_once_though_batches_are_more_frequent_than_checks() -> None:
    query, loads = ShortMemory(), LoadsQuery(MagicMock())
    loads.query = query  # type: ignore[assignment]
    counted = []
    for lost in (0, 2, 0, 7, 1, 0, 4, 0):
        query.run_batch(lost)
        if len(query.batches) % 2 == 0:
            counted.append(loads.check_lost())
    assert counted == [2, 9, 10, 14]
