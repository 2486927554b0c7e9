"""What a backtest reads: our reports, Pulsar's, tables; and what it refuses, line by line, without losing any."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.backtest.recording.input import read_input
from controller.backtest.recording.recording import from_reports
from controller.domain.errors import ConfigError
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.ledger.append import append_rows
from controller.ledger.tables import TableRoot
from controller.loads.recorded import Overrides
from tests.sim.backtest.backtest_recordings import STEP_MS, A, B, C, D, report

REAL = Path(__file__).parents[2] / "data" / "real" / "pulsar_load_reports.jsonl"
CPU, RATE, MIB = RESOURCES.index("cpu"), BUNDLE_FIELDS.index("msg_rate_in"), 1024 * 1024


def lines_in(path: Path, documents: Iterable[Mapping[str, Any] | str]) -> Path:
    path.write_text("".join(f"{d if isinstance(d, str) else json.dumps(d)}\n" for d in documents))
    return path


def good() -> list[dict[str, Any]]:
    return [r for at in range(4) for r in (report("b1", at, {A: 30.0, B: 20.0}), report("b2", at, {D: 20.0}))]


def changed(**change: Any) -> dict[str, Any]:
    return {**report("b1", 9, {A: 30.0}), **change}


def test_reports_as_agents_send_them(tmp_path: Path) -> None:
    found = read_input(str(lines_in(tmp_path / "r.jsonl", good())), None, Overrides(), tmp_path / "q.jsonl")
    assert (found.reports, found.step_ms, not found.refused) == (8, STEP_MS, True)
    assert found.recording.bundles == (A, B, D)
    assert found.recording.usage[:, :, CPU].tolist() == [[50.0, 20.0]] * 4
    assert not (tmp_path / "q.jsonl").exists()


def test_a_step_longer_than_the_recording_is_refused(tmp_path: Path) -> None:
    source, lasts_ms = str(lines_in(tmp_path / "r.jsonl", good())), 4 * STEP_MS
    assert len(read_input(source, lasts_ms, Overrides(), tmp_path / "q.jsonl").recording.at_ms) <= 2
    with pytest.raises(ConfigError, match=f"a step of {lasts_ms + 1} ms is longer than .* lasts {lasts_ms} ms: give"):
        read_input(source, lasts_ms + 1, Overrides(), tmp_path / "q.jsonl")


def test_compressed_lines_are_the_same(tmp_path: Path) -> None:
    plain = lines_in(tmp_path / "r.jsonl", good())
    packed = tmp_path / "r.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    digests = {
        read_input(str(p), None, Overrides(), tmp_path / "q").recording.digest() for p in (plain, packed)
    }  # fmt: skip
    assert len(digests) == 1
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="cut off"):
        read_input(str(packed), None, Overrides(), tmp_path / "q")


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    """As in `--reports <(zcat …)`."""
    pipe, lines = tmp_path / "pipe", lines_in(tmp_path / "r.jsonl", good() * 100)
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(lambda: pipe.write_bytes(lines.read_bytes()))
        found = read_input(str(pipe), None, Overrides(), tmp_path / "q.jsonl")
        written.result()
    assert found.recording.digest() == read_input(
        str(lines), None, Overrides(), tmp_path / "q.jsonl"
    ).recording.digest()  # fmt: skip


def test_pulsars_own_reports_in_our_units(tmp_path: Path) -> None:
    found = read_input(str(REAL), None, Overrides(), tmp_path / "q.jsonl")
    assert (found.reports, found.step_ms, len(found.recording.brokers)) == (186, 5_000, 3)
    memory, bandwidth = RESOURCES.index("memory"), RESOURCES.index("bandwidth_in")
    assert found.recording.limit[0, 0, memory] == 494.9375 * MIB
    assert found.recording.limit[0, 0, CPU] == 200.0, "percent of one core"
    assert np.isnan(found.recording.limit[..., bandwidth]).all(), "limits below 0 are unknown"
    known = read_input(str(REAL), None, Overrides(1.0, True), tmp_path / "q.jsonl")
    assert (known.recording.limit[..., bandwidth][known.recording.member] == 125e6).all()


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("{", "not_json"),
        ("[1]", "not_json"),
        ("[" * 100_000, "not_json"),
        (changed(v=2), "version"),
        (changed(sent_ms=None), "wrong_type"),
        (changed(sent_ms=-1), "no_timestamp"),
        (changed(sent_ms=10**30), "no_timestamp"),
        (changed(sent_ms=10**15), "no_timestamp"),
        (changed(broker="no broker"), "broker_id"),
        (changed(broker=7), "wrong_type"),
        (changed(rpc_queue_ms="0"), "wrong_type"),
        (changed(totals=dict.fromkeys(BUNDLE_FIELDS, "1")), "wrong_type"),
        (changed(bundles=[{"bundle": [A], **dict.fromkeys(BUNDLE_FIELDS, 0.0)}]), "wrong_type"),
        (changed(bundles=[{"bundle": A, **dict.fromkeys(BUNDLE_FIELDS, "1")}]), "wrong_type"),
        (changed(bundles=[{"bundle": A, **{f: [1.0] for f in BUNDLE_FIELDS}}]), "wrong_type"),
        (changed(bundles=[{"bundle": A, **{f: [1.0, 2.0] for f in BUNDLE_FIELDS}}]), "wrong_type"),
        (changed(resources={name: {"usage": "1", "limit": "2"} for name in RESOURCES}), "wrong_type"),
        (changed(resources={}), "wrong_type"),
        (changed(bundles=[{"bundle": A}]), "wrong_type"),
        (report("b1", 9, {"t/n/0xA": 1.0}), "bundle_name"),
        (report("b1", 9, {"t/n/0x40000000_0x20000000": 1.0}), "bundle_name"),
        (report("b1", 9, {A: -1.0}), "negative"),
        (report("b1", 9, {A: float("nan")}), "nonfinite"),
        (report("b1", 9, {A: 1e300}), "nonfinite"),
        (report("b1", 9, {A: 1.0}, cpu=301.0), "impossible"),
        (report("b1", 9, {A: 1.0}, cpu=-5.0), "impossible"),
        ({"ts": 1.0, "broker": "b1", "report": {"cpu": 3}}, "wrong_type"),
        ({"ts": "late", "broker": "b1", "report": {}}, "recording"),
        ('{"ts": 1e400, "broker": "b1", "report": {}}', "recording"),
        ('{"ts": NaN, "broker": "b1", "report": {}}', "recording"),
        ({"broker": "b1", "report": {}}, "recording"),
    ],
)
def test_a_bad_line_is_quarantined_and_the_others_count(
    tmp_path: Path, line: Mapping[str, Any] | str, rule: str
) -> None:
    twice = changed()
    twice["bundles"] = twice["bundles"] * 2
    path = lines_in(tmp_path / "r.jsonl", [*good()[:4], line, "", twice, *good()[4:]])
    found = read_input(str(path), None, Overrides(), tmp_path / "out" / "q.jsonl")
    assert found.reports == 8
    assert found.refused == {rule: 1, "duplicate_bundle": 1}
    rows = [json.loads(row) for row in (tmp_path / "out" / "q.jsonl").read_text().splitlines()]
    assert [(row["line"], row["rule"]) for row in rows] == [(5, rule), (7, "duplicate_bundle")]
    assert rows[0]["text"]
    assert rows[1]["raw"] == json.dumps(twice)
    assert found.recording.digest() == read_input(
        str(lines_in(tmp_path / "g.jsonl", good())), None, Overrides(), tmp_path / "none"
    ).recording.digest()  # fmt: skip


@pytest.mark.parametrize("sent_ms", [1_000, 0, 4_102_444_800_000])
def test_a_report_of_another_time_is_refused_with_its_line_and_does_not_count(tmp_path: Path, sent_ms: int) -> None:
    year_ms = 31_536_000_000
    kept = [{**each, "sent_ms": each["sent_ms"] + 56 * year_ms} for each in good()]
    stray = {**report("b3", 2, {C: 30.0}), "sent_ms": sent_ms}
    path = lines_in(tmp_path / "r.jsonl", [*kept[:4], "{", stray, *kept[4:]])
    found = read_input(str(path), None, Overrides(), tmp_path / "q.jsonl")
    assert found.reports == 8
    assert found.refused == {"not_json": 1, "stray_time": 1}
    row = json.loads((tmp_path / "q.jsonl").read_text().splitlines()[-1])
    assert (row["line"], row["rule"], row["raw"]) == (6, "stray_time", json.dumps(stray))
    assert f"({sent_ms} ms)" in row["text"]
    clean = read_input(str(lines_in(tmp_path / "g.jsonl", kept)), None, Overrides(), tmp_path / "none")
    assert found.recording.digest() == clean.recording.digest()
    assert found.step_ms == clean.step_ms


def test_an_archive_that_is_damaged_or_none_is_told(tmp_path: Path) -> None:
    plain = lines_in(tmp_path / "r.jsonl", [changed(sent_ms=30_000 * at + at % 7) for at in range(400)])
    whole = gzip.compress(plain.read_bytes())
    middle = len(whole) // 2
    for content in (plain.read_bytes(), whole[:middle] + bytes(20) + whole[middle + 20 :], whole[:-8] + bytes(8)):
        packed = tmp_path / "r.jsonl.gz"
        packed.write_bytes(content)
        with pytest.raises(ConfigError, match=r"r\.jsonl\.gz is no gzip archive, or a damaged one"):
            read_input(str(packed), None, Overrides(), tmp_path / "q")


def many(brokers: int, steps: int) -> list[dict[str, Any]]:
    return [report(f"b{b}", at, {A: 1.0 + at % 5} if b == 0 else {}) for at in range(steps) for b in range(brokers)]


@pytest.mark.parametrize("reports", [good(), many(3, 300)])
def test_twice_the_same_lines_are_the_same_recording(tmp_path: Path, reports: list[dict[str, Any]]) -> None:
    """Distances of 0 are none: without them the step of a doubled file would be a second."""
    once = read_input(str(lines_in(tmp_path / "1", reports)), None, Overrides(), tmp_path / "q")
    for doubled in ([*reports, *reports], [r for r in reports for _ in range(3)]):
        found = read_input(str(lines_in(tmp_path / "2", doubled)), None, Overrides(), tmp_path / "q")
        assert found.step_ms == once.step_ms == STEP_MS
        assert found.recording.digest() == once.recording.digest()


def test_lines_in_any_order_are_the_same_recording(tmp_path: Path) -> None:
    """More of them than are looked at for the step while they come in order."""
    reports = many(8, 700)
    once = read_input(str(lines_in(tmp_path / "1", reports)), None, Overrides(), tmp_path / "q")
    for order in (np.random.default_rng(1).permutation(len(reports)), np.arange(len(reports))[::-1]):
        mixed = lines_in(tmp_path / "2", [reports[at] for at in order])
        found = read_input(str(mixed), None, Overrides(), tmp_path / "q")
        assert found.step_ms == once.step_ms == STEP_MS
        assert found.recording.digest() == once.recording.digest()


def test_what_an_earlier_run_refused_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    read_input(str(lines_in(tmp_path / "r", [*good(), "{"])), None, Overrides(), tmp_path / "q.jsonl")
    assert (tmp_path / "q.jsonl").exists()
    root = TableRoot(tmp_path / "tables")
    root.create_all()
    broker, rows = _panes(good()[0], 1)
    append_rows(root, "broker_panes", [broker])
    append_rows(root, "bundle_panes", rows)
    read_input(str(tmp_path / "tables"), None, Overrides(), tmp_path / "q.jsonl")
    assert not (tmp_path / "q.jsonl").exists()


def test_nothing_usable_is_told(tmp_path: Path) -> None:
    bad = lines_in(tmp_path / "r.jsonl", ["{", changed(v=3)])
    with pytest.raises(ConfigError, match="not_json: 1, version: 1"):
        read_input(str(bad), None, Overrides(), tmp_path / "q.jsonl")
    with pytest.raises(ConfigError, match=r"it is empty\)$"):
        read_input(str(lines_in(tmp_path / "e.jsonl", [])), None, Overrides(), tmp_path / "q.jsonl")
    with pytest.raises(ConfigError, match="does not exist"):
        read_input(str(tmp_path / "nowhere"), None, Overrides(), tmp_path / "q.jsonl")
    with pytest.raises(ConfigError, match="broker_panes"):
        read_input(str(tmp_path), None, Overrides(), tmp_path / "q.jsonl")
    TableRoot(tmp_path / "tables").create_all()
    for beside in (tmp_path, tmp_path / "tables" / "journal"):
        with pytest.raises(ConfigError, match=f"did you mean {tmp_path / 'tables'}\\?"):
            read_input(str(beside), None, Overrides(), tmp_path / "q.jsonl")
    with pytest.raises(ConfigError, match="no rows"):
        read_input(str(tmp_path / "tables"), None, Overrides(), tmp_path / "q.jsonl")


def _panes(told: Mapping[str, Any], batch: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The partial panes of one report, as the loads query writes them."""
    end_ms = told["sent_ms"] // 10_000 * 10_000 + 10_000
    common = {"pane_end_ms": end_ms, "broker": told["broker"], "reports": 1, "writer": "w", "batch_id": batch}
    resources = {}
    for name, figures in told["resources"].items():
        known = figures["limit"] > 0
        usage, limit = (figures[part] if known else 0.0 for part in ("usage", "limit"))
        resources |= {f"{name}_usage_sum": usage, f"{name}_usage_max": usage, f"{name}_limit_sum": limit}
        resources[f"{name}_known"] = int(known)
    latencies = {f"{n}_{how}": 0.0 for n in ("rpc_queue_ms", "metadata_latency_ms") for how in ("sum", "max")}
    sums = {f"{f}_sum": told["totals"][f] for f in (*BUNDLE_FIELDS, "bundles")}
    times = {"first_event_ms": told["sent_ms"], "last_event_ms": told["sent_ms"]}
    broker = {**common, **resources, **latencies, **sums, **times, "incarnation": 1, "last_sequence": 1}
    tail = {"bundle": "tail", **dict.fromkeys(BUNDLE_FIELDS, 1.0)}
    rows = []
    for b in (*told["bundles"], tail):
        figures = {f"{f}_{how}": b[f] for f in BUNDLE_FIELDS for how in ("sum", "max")}
        rows.append({**common, **figures, "bundle": b["bundle"], "namespace": "t/n"})
    return broker, rows


@pytest.mark.parametrize(("apart", "step_ms"), [(1, 30_000), (4, 120_000)])
def test_tables_of_brokers_that_report_seldom_have_longer_steps(tmp_path: Path, apart: int, step_ms: int) -> None:
    """In steps of a pane each broker would be gone for most of the time."""
    root = TableRoot(tmp_path)
    root.create_all()
    told = [_panes(report(name, at, {A: 1.0}), at) for at in range(0, 12 * apart, apart) for name in ("b1", "b2")]
    append_rows(root, "broker_panes", [row for row, _ in told])
    append_rows(root, "bundle_panes", [row for _, rows in told for row in rows])
    found = read_input(str(tmp_path), None, Overrides(), tmp_path / "q.jsonl")
    assert found.step_ms == step_ms
    assert found.recording.member.all()
    assert len(found.recording.at_ms) == 12


def test_tables_of_a_running_system_give_the_same_recording(tmp_path: Path) -> None:
    """Each report as a pane of its own, in three commits, over three hours: merged into steps they are the reports."""
    steps = (0, 1, 118, 119, 120, 121, 300, 359)
    reports = [r for at in steps for r in (report("b1", at, {A: 30.0 + at, B: 20.0}), report("b2", at, {D: 20.0}))]
    root = TableRoot(tmp_path)
    root.create_all()
    for batch in range(3):
        panes = [_panes(told, batch) for told in reports[batch::3]]
        append_rows(root, "broker_panes", [row for row, _ in panes])
        append_rows(root, "bundle_panes", [row for _, rows in panes for row in rows])
    found = read_input(str(tmp_path), STEP_MS, Overrides(), tmp_path / "q.jsonl")
    for table in ("broker_panes", "bundle_panes/"):  # the one stands for both
        named = read_input(f"{tmp_path}/{table}", STEP_MS, Overrides(), tmp_path / "q.jsonl")
        assert named.recording.digest() == found.recording.digest()
    wanted = from_reports(reports, STEP_MS)
    assert found.reports == len(reports)
    assert (found.recording.bundles, found.recording.brokers) == (wanted.bundles, wanted.brokers)
    assert found.recording.digest() == wanted.digest()
