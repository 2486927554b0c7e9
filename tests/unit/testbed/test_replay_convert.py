"""A recorded Pulsar load report becomes the report that the broker's own agent would have sent."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from controller.agent.reports.report import BUNDLE_FIELDS as REPORTED
from controller.cli.main import main
from controller.cli.tryout.replay_reports import _read
from controller.config.load import load_settings
from controller.domain.errors import BadRecord
from controller.domain.ids import Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.loads.recorded import Overrides, Recorded, read_record, to_load_report
from controller.testbed.replay import last_round_ms, read_recording, sources_by_phase

RECORDING = Path(__file__).parents[2] / "data" / "real" / "pulsar_load_reports.jsonl"
SESSION = Session("127.0.0.1:18081", 1, "replay", 1)
STATS = {
    "msgRateIn": 45.0, "msgThroughputIn": 40_000.0, "msgRateOut": 90.0, "msgThroughputOut": 80_000.0,
    "consumerCount": 2, "producerCount": 3, "topics": 4, "cacheSize": 500,
}  # fmt: skip
REPORT: dict[str, Any] = {
    "cpu": {"usage": 154.7, "limit": 200.0},
    "memory": {"usage": 89.0, "limit": 494.0},
    "directMemory": {"usage": 16.0, "limit": 384.0},
    "bandwidthIn": {"usage": 8.0, "limit": 1_000.0},
    "bandwidthOut": {"usage": 0.02, "limit": -1000.0},
    "msgThroughputIn": 411_481.8,
    "msgThroughputOut": 411_481.0,
    "lastStats": {"t1/ns1/0xe0000000_0xf0000000": STATS, "t1/ns1/0x10000000_0x20000000": {**STATS, "topics": 6}},
}


def converted(overrides: Overrides | None = None, **changes: Any) -> dict[str, Any]:
    recorded = Recorded(1_000, "baseline", SESSION.broker, {**copy.deepcopy(REPORT), **changes})
    return to_load_report(recorded, SESSION, 7, overrides or Overrides())


def test_units_are_converted_and_unknown_limits_stay_unknown() -> None:
    resources = converted()["resources"]
    assert resources.keys() == set(RESOURCES)
    assert resources["cpu"] == {"usage": 154.7, "limit": 200.0}
    assert resources["memory"] == {"usage": 89.0 * 2**20, "limit": 494.0 * 2**20}
    assert resources["direct_memory"] == {"usage": 16.0 * 2**20, "limit": 384.0 * 2**20}
    assert resources["bandwidth_in"] == {"usage": 1_000.0, "limit": 125_000.0}, "8 and 1,000 kbit/s"
    assert resources["bandwidth_out"]["limit"] == -1.0
    assert resources["disk_io"] == {"usage": -1.0, "limit": -1.0}


def test_a_fresh_broker_that_knows_nothing_stays_unknown() -> None:
    resources = converted(cpu={"usage": -1.0, "limit": -1.0}, memory=None)["resources"]
    assert resources["cpu"] == {"usage": -1.0, "limit": -1.0}
    assert resources["memory"] == {"usage": -1.0, "limit": -1.0}


def test_the_cards_speed_is_overridden_in_both_directions() -> None:
    resources = converted(Overrides(nic_speed_gbps=0.08))["resources"]
    assert {resources[name]["limit"] for name in ("bandwidth_in", "bandwidth_out")} == {10_000_000.0}
    assert resources["bandwidth_in"]["usage"] == 1_000.0, "the usage is the card's own"


def test_message_throughput_stands_for_traffic_only_where_the_card_is_unknown() -> None:
    resources = converted(Overrides(nic_speed_gbps=0.08, message_throughput_as_bandwidth=True))["resources"]
    assert resources["bandwidth_out"] == {"usage": 411_481.0, "limit": 10_000_000.0}
    assert resources["bandwidth_in"]["usage"] == 1_000.0


def test_totals_are_the_sums_of_the_bundles() -> None:
    report = converted()
    assert [b["bundle"] for b in report["bundles"]] == sorted(REPORT["lastStats"])
    for name in BUNDLE_FIELDS:
        assert report["totals"][name] == sum(b[name] for b in report["bundles"]), name
    assert (report["totals"]["topics"], report["totals"]["bundles"], report["tail"]["bundles"]) == (10, 2, 0)
    assert report["bundles"][0]["sessions"] == 5
    assert report["bundles"][0]["cache_bytes"] == 500
    assert set(REPORTED) == set(BUNDLE_FIELDS)


def test_the_report_names_the_session_it_is_sent_for() -> None:
    report = converted()
    named = [report[name] for name in ("broker", "incarnation", "nonce", "session", "sequence", "sent_ms", "v")]
    assert named == ["127.0.0.1:18081", 1, "replay", 1, 7, 1_000, 1]
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("row", [{"broker": "b", "report": {}}, {"ts": 1.0, "report": {}}, {"ts": "x", "broker": "b"}])
def test_a_line_that_lacks_something_is_named(row: dict[str, Any]) -> None:
    with pytest.raises(BadRecord, match="line 12"):
        read_record(row, 12)


def test_the_real_recording_is_read_in_order_of_time() -> None:
    records = read_recording(RECORDING)
    assert len(records) == 186
    assert [r.at_ms for r in records] == sorted(r.at_ms for r in records)
    assert len({r.broker for r in records}) == 3
    phases = list(dict.fromkeys(r.phase for r in records))
    assert phases == ["baseline", "hot_A3", "hot_B3", "hot_A1_very", "hot_mix", "cooldown"]


def test_a_record_of_another_time_is_left_out_of_a_replay(tmp_path: Path) -> None:
    lines = RECORDING.read_text().splitlines()[:32]
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join([*lines[:16], json.dumps({**json.loads(lines[16]), "ts": 1}), *lines[17:]]))
    refused: list[BadRecord] = []
    records = read_recording(file, refused.append)
    kept = [line for at, line in enumerate(lines) if at != 16 and "report" in json.loads(line)]
    assert len(records) == len(kept)
    assert [error.rule_id for error in refused] == ["stray_time"]
    assert refused[0].text.startswith("line 17: its time is 1970-01-01 00:00:01 UTC (1000 ms)")


@pytest.mark.parametrize(("text", "wanted"), [("{", "line 1"), ("\n\n", "no reports"), ('{"ts": 1}\n', "line 1")])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: str, wanted: str) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text(text)
    with pytest.raises(BadRecord, match=wanted):
        read_recording(file)


def test_lines_that_are_left_out_are_summed_up_in_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text('{"ts": 1}\n' + "garbage\n" * 300 + RECORDING.read_text())
    assert len(_read(file)) == 186
    assert capsys.readouterr().err == (
        "ballast: lines refused: not_json: 300, recording: 1; the first: line 1: broker is None, "
        "wanted text; wanted are ts, broker and report\n"
    )


def test_a_file_of_nothing_else_ends_in_one_line_and_the_code_of_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "garbage.jsonl"
    file.write_text("garbage\n" * 300)
    with pytest.raises(SystemExit) as ended:
        main(["replay-reports", str(file)])
    err = capsys.readouterr().err
    assert (ended.value.code, err.count("\n")) == (2, 1)
    assert err.startswith(f"ballast: {file} has no reports: line 1 is no JSON")


def test_the_last_round_is_the_newest_that_the_reports_make_due() -> None:
    settings = load_settings(None, "recording")
    end = [Recorded(at_ms, "p", "b", {}) for at_ms in (5_000, 32_001)]
    assert last_round_ms(end, settings) == 30_000, "a report newer than 30 s + 2 s has come"
    assert last_round_ms([Recorded(32_000, "p", "b", {})], settings) == 20_000


def test_a_phase_shows_the_sources_of_its_last_round() -> None:
    records = [Recorded(at_ms, phase, "b1", {}) for at_ms, phase in ((1, "calm"), (11, "calm"), (21, "hot"), (41, ""))]
    rounds = [{"at_ms": at_ms} for at_ms in (10, 20, 30, 50)]
    scores = [
        {"at_ms": 10, "broker": "b2", "is_source": True},
        {"at_ms": 20, "broker": "b2", "is_source": False},
        {"at_ms": 30, "broker": "b2", "is_source": True},
        {"at_ms": 30, "broker": "b1", "is_source": True},
        {"at_ms": 50, "broker": "b3", "is_source": True},
    ]
    assert sources_by_phase(records, rounds, scores) == {"calm": [], "hot": ["b1", "b2"]}
