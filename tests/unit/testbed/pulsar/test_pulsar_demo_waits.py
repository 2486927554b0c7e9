"""The Pulsar demo's waits together: start-up counts, so that the whole ends within its time."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from controller.testbed.demo.screen.plain import PlainLines
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.demo.scenario import DRAIN_S, LEAST_S, WAITS_END_S, PulsarDemo
from controller.testbed.pulsar.spec import make_spec

WHOLE_S = 720  # what the documentation promises


class Patience:
    """In place of Ballast: everything comes at once. Keeps how long would have been waited."""

    def __init__(self) -> None:
        self.timeouts_s: list[float] = []

    def wait_until(self, holds: Any, timeout_s: float, what: str) -> None:
        self.timeouts_s.append(timeout_s)


@pytest.mark.parametrize(
    ("start_up_s", "waited_s"), [(0.0, 150.0), (WAITS_END_S - 60, 60.0), (WAITS_END_S, LEAST_S), (2_000.0, LEAST_S)]
)
def test_a_slow_start_up_shortens_the_waits(tmp_path: Path, start_up_s: float, waited_s: float) -> None:
    cluster, patience = PulsarCluster(tmp_path, make_spec(pulsar="4.0.8")), Patience()
    screen = PlainLines(Console(file=io.StringIO()))
    demo = PulsarDemo(cluster, patience, screen, tmp_path, time.monotonic() - start_up_s)  # type: ignore[arg-type]
    assert demo._wait("relief", lambda state: True, 150.0)
    assert patience.timeouts_s == [pytest.approx(waited_s, abs=1.0)]


def test_what_comes_after_the_waits_fits_into_the_promised_time() -> None:
    assert WAITS_END_S + DRAIN_S + 30 <= WHOLE_S, "acknowledgements, deliveries, and stopping everything"
