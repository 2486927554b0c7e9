"""The metrics of the loads query: an age grows while nothing comes."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry

from controller.loads.metrics import LoadsMetrics
from controller.process.clock import wall_ms


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
