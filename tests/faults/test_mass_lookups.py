"""Thousands of unowned bundles looked up at the real job, and a broker that dies in the same second.

The times are the benchmark's business (`python -m benchmarks mass_lookups`); here everything is assigned, a bounded
number a batch, and within a batch no rescue waits for a lookup.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure.clients.mass_lookups import Options, measure
from controller.control.assignment import FIRST_GRANTS_IN_FLIGHT

pytestmark = [pytest.mark.faults, pytest.mark.e2e, pytest.mark.timeout(900)]


def test_all_are_assigned_in_portions_and_the_rescue_comes_first(tmp_path: Path) -> None:
    figures, broken = measure(tmp_path, Options(brokers=5, lost=100, lookups=3_000))
    assert broken == []
    assert 0 < figures["most_lookups_a_batch"] <= FIRST_GRANTS_IN_FLIGHT
