"""`ballast quarantine`: what broke a rule, where it lies in Kafka, and what was in it."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.ledger.append import append_rows
from controller.process.paths import ROOT
from tests.component.cli.conftest import Ballast, Document
from tests.short_run import START_MS, ShortRun

ALL = f"--since {START_MS}"


def test_records_are_listed_newest_first_and_counted_by_rule(
    document: Document, ballast: Ballast, run: ShortRun
) -> None:
    told = document(f"quarantine list {ALL}")
    stored = run.root.open("quarantine").to_pyarrow_table().to_pylist()
    assert told["total"] == len(stored) == sum(told["rules"].values()) == 4
    assert {row["record"] for row in told["records"]} == {f"{r['topic']}-0@{r['kafka_offset']}" for r in stored}
    found = [row["detected_ms"] for row in told["records"]]
    assert found == sorted(found, reverse=True)
    assert all("raw" not in row for row in told["records"])
    code, out, _ = ballast(f"quarantine list {ALL} --limit 1")
    assert code == 0
    assert "3 more; --limit shows them" in out
    assert "4 since " in out
    rule = stored[0]["rule"]
    only = document(f"quarantine list {ALL} --rule {rule}")
    assert only["total"] == told["rules"][rule]
    assert {row["topic"] for row in document(f"quarantine list {ALL} --topic commands")["records"]} == {"commands"}


def test_a_filter_that_fits_nothing_says_what_there_is(ballast: Ballast) -> None:
    code, out, _ = ballast(f"quarantine list {ALL} --rule too_deep --topic commands")
    assert code == 0
    assert "no record of rule too_deep and topic commands is in quarantine since" in out
    assert "but others are: rule " in out
    assert "; topic commands (" in out or ", commands (" in out
    assert "nothing is in quarantine" in ballast("quarantine list --rule too_deep")[1]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_rule_or_topic_that_there_is_not_is_an_error(ballast: Ballast, more: list[str]) -> None:
    for line, told in (
        (f"quarantine list {ALL} --rule not_jsn", "--rule not_jsn is none of "),
        ("quarantine list --rule not_jsn", "--rule not_jsn is none of "),
        ("quarantine list --topic nosuch", "--topic nosuch is none of broker-events, commands, load-reports"),
    ):
        code, out, err = ballast(line, *more)
        assert (code, out, err.count("\n"), err.startswith(f"ballast: {told}")) == (2, "", 1, True)


def test_rules_that_no_record_has_broken_yet_are_known(ballast: Ballast) -> None:
    parsers = ("controller/domain/events.py", "controller/domain/strict_json.py", "controller/service/records.py")
    named = {rule for file in parsers for rule in re.findall(r'BadRecord\("(\w+)"', (ROOT / file).read_text())}
    assert {"not_json", "event_kind", "key_mismatch"} <= named
    for rule in (*named, "bundle_name", "broker_id", "field_epoch", "conservation"):
        assert ballast(f"quarantine list --rule {rule}")[0] == 0, rule
    assert ballast("quarantine list --topic heartbeats")[0] == 0


def test_without_a_time_it_is_the_last_day(document: Document, ballast: Ballast) -> None:
    assert document("quarantine list")["total"] == 0, "the run was in another year"
    assert "nothing is in quarantine since" in ballast("quarantine list")[1]


def test_a_record_is_shown_with_its_content(document: Document, ballast: Ballast) -> None:
    by_text = {r["text"]: r["record"] for r in document(f"quarantine list {ALL}")["records"]}
    raws = {name: document("quarantine show", name) for name in by_text.values()}
    assert {row["raw"] for row in raws.values() if not row["raw_base64"]} == {
        "{}", '{"v": 1, "kind": "dance"}', "not json"
    }  # fmt: skip
    (binary,) = [row for row in raws.values() if row["raw_base64"]]
    assert base64.b64decode(binary["raw"]) == b"\xff\xfe"
    code, out, _ = ballast("quarantine show", binary["record"])
    assert (code, f"not UTF-8, so as base64:\n{binary['raw']}" in out) == (0, True)
    for name, wrong in (
        ("commands", "`ballast quarantine list` prints it"),
        ("commands-0@9", "no record commands-0@9"),
    ):
        code, _, err = ballast("quarantine show", name)
        assert (code, wrong in err, err.count("\n")) == (2 if name == "commands" else 1, True, 1)


def test_control_characters_reach_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ShortRun(tmp_path / "tables")
    run.quarantine(b"not json", 2)
    row = run.root.open("quarantine").to_pyarrow_table().to_pylist()[0]
    append_rows(run.root, "quarantine", [{**row, "kafka_offset": 77, "raw": "\x1b[2Jgone"}])
    with pytest.raises(SystemExit):
        main(["quarantine", "show", f"{row['topic']}-0@77", "--set", f"tables.root={run.root.root}"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\u001b[2Jgone" in out
