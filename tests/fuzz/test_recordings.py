"""Recordings: load reports of Pulsar or our own as JSON lines, for `backtest`, `advise` and `replay-reports`."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.backtest.recording.input import read_input
from controller.backtest.recording.lines import Figures, LineReader
from controller.bus.producer import to_json
from controller.cli.pulsar.advise import with_policies
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.ids import Session
from controller.domain.settings.policy import PolicySettings
from controller.loads.recorded import Overrides, Recorded, to_load_report
from controller.process.paths import ROOT
from controller.testbed.replay import read_recording
from tests.fuzz.hostile import DEEP, LONG, records
from tests.fuzz.limits import bounded, check_error, fuzzing, read_or_refuse
from tests.fuzz.test_living_sessions import FACTS
from tests.fuzz.test_load_reports import GOOD

REAL = [
    json.loads(line)
    for line in (ROOT / "tests" / "data" / "real" / "pulsar_load_reports.jsonl").read_text().split("\n")[1:3]
]
PULSAR: dict[str, Any] = {
    **REAL[0],
    "process_cpu": {"usage": 30.0, "limit": 200.0},
    "excluded": {"msgRateIn": 5.0, "topics": 2, "cacheSize": 1},
}
POLICIES = {"ts": 5.0, "policies": {fact["key"]: fact["value"] for fact in FACTS[4:7]}}
GAP = {"ts": 5.0, "broker": "b:1", "gap": "timed_out", "detail": "x"}
AT_MS = round(1_000 * REAL[0]["ts"])  # of all lines: what is a day from the others does not count
LINES = [PULSAR, {**GOOD, "sent_ms": AT_MS}, {**GOOD, "sent_ms": AT_MS + 5_000, "sequence": 8}]
SESSION = Session("b:1", 1, "n", 1)


def read(raw: bytes) -> Figures | None:
    """One line of a backtest's input."""
    return read_or_refuse(lambda raw: LineReader(Overrides()).read(raw, 7), raw, BadRecord, len(raw))


@fuzzing(24, 12_000)
@given(records([*LINES, GAP, POLICIES]))
def test_a_line_of_a_backtest_is_read_or_refused(raw: bytes) -> None:
    figures = read(raw)
    if figures is not None:
        assert figures.rows.shape[0] == len(figures.names)
        assert 0 <= figures.order[0] < 253_402_300_800_000


def line_of(raw: bytes) -> bytes:
    """As one line of a file."""
    return raw.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


@fuzzing(6, 2_000)
@given(st.lists(records(LINES), min_size=1, max_size=3), st.booleans())
def test_each_line_of_a_file_is_read_or_quarantined(hostile: list[bytes], zipped: bool) -> None:
    honest = [json.dumps(line).encode() for line in LINES]
    pairs = [raw for pair in zip(hostile, honest, strict=False) for raw in pair]
    text = b"".join(map(line_of, [*pairs, *(honest[0] for _ in hostile)]))  # most of the file is honest
    with tempfile.TemporaryDirectory() as folder:
        path, quarantine = Path(folder, "r.jsonl.gz" if zipped else "r.jsonl"), Path(folder, "q.jsonl")
        path.write_bytes(gzip.compress(text) if zipped else text)
        with bounded(len(text), besides=16 * 2**20):
            found = read_input(str(path), 5_000, Overrides(), quarantine)
        rows = [json.loads(row) for row in quarantine.read_text().splitlines()] if quarantine.exists() else []
        replayed, refused = replay_of(Path(folder, "plain.jsonl"), text)
    full = sum(1 for line in text.split(b"\n") if line.strip())
    untold = sum(told_nothing(line) for line in text.split(b"\n"))
    assert found.reports + len(rows) + untold == full
    assert sum(found.refused.values()) == len(rows)
    for row in rows:
        check_error(row["text"])
        assert row["line"] % 2, "the honest ones are at even lines"
        assert row["line"] < len(pairs), "and at the end"
    assert len(replayed) + len(refused) + untold == full
    for one in replayed:
        to_json(to_load_report(one, SESSION, 1, Overrides()))


def replay_of(path: Path, text: bytes) -> tuple[list[Recorded], list[BadRecord]]:
    """What a replay sends of a file of Pulsar's reports, and what it tells to have left out."""
    path.write_bytes(text)
    refused: list[BadRecord] = []
    with bounded(len(text)):
        found = read_recording(path, refused.append)
    for error in refused:
        check_error(error)
    return found, refused


def told_nothing(line: bytes) -> bool:
    """Whether a line is a gap or policies, which are no reports."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "report" not in row and ("gap" in row or isinstance(row.get("policies"), dict))


@fuzzing(16, 9_000)
@given(records([POLICIES]))
def test_policies_of_a_recording_are_applied_or_refused(raw: bytes) -> None:
    reader = LineReader(Overrides())
    try:
        reader.read(raw, 1)
    except BadRecord:
        return
    with bounded(len(raw)):
        try:
            with_policies(PolicySettings(), reader.policies)
        except ConfigError as error:
            check_error(error)


@pytest.mark.parametrize(
    "changed",
    [
        {"ts": "x" * LONG}, {"ts": [1] * LONG}, {"ts": True}, {"ts": None}, {"ts": 1e300}, {"ts": float("nan")},
        {"ts": -5},
        {"broker": 5}, {"broker": "b" * LONG}, {"broker": "\x1b"}, {"broker": None}, {"report": []}, {"report": "x"},
        {"report": {}},
        {"excluded": "ab"}, {"excluded": {"msgRateIn": "x"}}, {"process_cpu": 5}, {"phase": ["x" * LONG] * 9},
        {"report": {**PULSAR["report"], "lastStats": [1]}},
        {"report": {**PULSAR["report"], "lastStats": {"t/n/0x00000000_0x10000000": {"msgRateIn": 1}}}},
        {"report": {**PULSAR["report"], "msgThroughputIn": "nan", "cpu": {"usage": "nan", "limit": "1"}}},
    ],
    ids=range(21),
)  # fmt: skip
def test_a_line_that_ended_the_replay_or_took_a_thousand_times_its_size(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    raw = json.dumps({**PULSAR, **changed}).encode()
    read(raw)
    found, refused = replay_of(tmp_path / "r.jsonl", raw + b"\n" + json.dumps(PULSAR).encode())
    assert len(found) + len(refused) == 2
    for one in found:
        to_json(to_load_report(one, SESSION, 1, Overrides()))


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({**GOOD, "v": "9" * LONG}).encode(),
        json.dumps({**GOOD, "broker": "b" * LONG}).encode(),
        json.dumps({**GOOD, "sent_ms": "9" * LONG}).encode(),
        json.dumps(
            {**GOOD, "bundles": [{**GOOD["bundles"][0], "msg_rate_in": "x" * LONG}] + GOOD["bundles"] * 300}
        ).encode(),
        json.dumps({**GOOD, "resources": {**GOOD["resources"], "cpu": {"usage": "x" * LONG, "limit": 1}}}).encode(),
        json.dumps({**GOOD, "bundles": [{**GOOD["bundles"][0], "topics": True}]}).encode(),
        json.dumps({**GOOD, "bundles": [{**GOOD["bundles"][0], "bundle": "t/\x1b/0x00000000_0x00010000"}]}).encode(),
        b"[" * DEEP,
        b'{"ts":' + b"9" * 5_000 + b"}",
        b"\xff\xfe",
    ],
    ids=range(10),
)
def test_a_line_is_refused_in_memory_of_its_size(raw: bytes) -> None:
    """One long text among ten thousand numbers became ten thousand long texts."""
    assert read(raw) is None


def test_a_line_separator_within_a_name_ends_no_line(tmp_path: Path) -> None:
    line = json.dumps({**PULSAR, "phase": "a\u2028b\x85c"}, ensure_ascii=False).encode()
    found, refused = replay_of(tmp_path / "r.jsonl", line + b"\r\n" + line)
    assert [one.phase for one in found] == ["a\u2028b\x85c"] * 2
    assert refused == []


def test_a_torn_line_is_left_out_and_told(tmp_path: Path) -> None:
    """As a recorder that was killed leaves it."""
    line = json.dumps(PULSAR).encode()
    found, refused = replay_of(tmp_path / "r.jsonl", b"\n".join([line, line[:200], line]))
    assert len(found) == 2
    assert "line 2" in str(refused[0])
    with pytest.raises(BadRecord, match="no reports"):
        replay_of(tmp_path / "r.jsonl", line[:200])
