"""Recorded Pulsar reports as arrays: nothing lost, nothing depending on the order of lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.backtest.recording.recording import NOBODY, from_reports
from controller.domain.errors import BadRecord
from controller.domain.ids import Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.loads.recorded import Overrides, to_load_report
from controller.testbed.replay import read_recording

REAL = Path(__file__).parents[2] / "data" / "real" / "pulsar_load_reports.jsonl"
STEP_MS = 30_000


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    return [
        to_load_report(r, Session(r.broker, 1, "n", 1), at, Overrides()) for at, r in enumerate(read_recording(REAL))
    ]


def test_each_step_holds_the_newest_report_of_each_broker(reports: list[dict[str, Any]]) -> None:
    recording = from_reports(reports, STEP_MS)
    assert recording.member.any(axis=1).all()
    assert (recording.owner != NOBODY).any()
    cpu, rate = RESOURCES.index("cpu"), BUNDLE_FIELDS.index("msg_rate_in")
    for step, end_ms in enumerate(recording.at_ms.tolist()):
        for at, broker in enumerate(recording.brokers):
            mine = [r for r in reports if r["broker"] == broker and end_ms - STEP_MS <= r["sent_ms"] < end_ms]
            assert recording.member[step, at] == bool(mine)
            if mine:
                assert recording.usage[step, at, cpu] == mine[-1]["resources"]["cpu"]["usage"]
        assert not recording.fields[step, recording.owner[step] == NOBODY, rate].any()


def test_unknown_limits_are_nan(reports: list[dict[str, Any]]) -> None:
    recording = from_reports(reports, STEP_MS)
    assert np.isnan(recording.limit[..., RESOURCES.index("bandwidth_in")]).all()
    assert (recording.limit[..., RESOURCES.index("cpu")][recording.member] == 200.0).all()


def test_the_order_of_reports_does_not_matter_and_their_figures_do(reports: list[dict[str, Any]]) -> None:
    recording = from_reports(reports, STEP_MS)
    assert from_reports(reports[::-1], STEP_MS).digest() == recording.digest()
    assert replace(recording, usage=recording.usage + 1).digest() != recording.digest()


def test_nothing_to_run_on_is_told(reports: list[dict[str, Any]]) -> None:
    with pytest.raises(BadRecord, match="no reports"):
        from_reports([], STEP_MS)
    with pytest.raises(BadRecord, match="0 ms"):
        from_reports(reports, 0)
