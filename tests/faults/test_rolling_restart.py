"""Every broker of a real cluster restarted in good order, under load, with rounds running.

The times are the benchmark's business (`python -m benchmarks rolling_restart`); here nothing may be lost, nothing may
be without an owner, and nothing may move more often than it must.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure.clients.rolling_restart import Options, measure

pytestmark = [pytest.mark.faults, pytest.mark.e2e, pytest.mark.timeout(900)]


def test_a_roll_moves_no_bundle_more_than_twice_and_loses_nothing(tmp_path: Path) -> None:
    figures, broken = measure(tmp_path, Options(brokers=4, bundles=12, rolls=1, warm_up_s=3.0, pause_s=1.0))
    assert broken == []
    assert figures["moves_a_bundle"]["most"] <= 2
    assert figures["moves"] >= 12 - 3, "every broker that owned something was emptied"
    assert figures["leave_s"]["count"] == 4
    assert set(figures["gaps_by_cause"]) == {"moved"}, "every client was told where its bundle went"
    assert figures["unacknowledged"] == 0
    audit = figures["audit"]
    assert audit["written"] == audit["read"] > 1_000
    assert (audit["lost"], audit["duplicated"], audit["reordered"], audit["fence_violations"]) == (0, 0, 0, 0)
