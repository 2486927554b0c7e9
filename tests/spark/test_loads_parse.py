"""Each rule of load reports: a bad record among good ones is named by its rule, and the good ones pass."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.loads_panes import bad_rows, judged, overview
from jobs.loads_parse import RULES, classify
from jobs.loads_settings import LoadsSettings
from tests.spark.loads_samples import BAD, SMALL, START_MS, bad_value, frame, report, row

pytestmark = pytest.mark.spark
BROKER = "b1:8080"


def rules_of(spark: SparkSession, rows: list[Any], settings: LoadsSettings = SMALL, late_ms: int = 0) -> dict[int, str]:
    found = (
        judged(classify(frame(spark, rows), settings), late_ms, START_MS + 60_000).select("offset", "rule").collect()
    )
    return dict(map(tuple, found))


def test_every_rule_names_its_record_and_good_ones_pass(spark: SparkSession) -> None:
    rng = random.Random(7)
    rows, expected = [], {}
    for offset, case in enumerate(BAD):
        rule, value = bad_value(case, BROKER, rng)
        broker = value["broker"] if case.startswith("broker id") else BROKER  # the key agrees: the id alone is judged
        rows.append(row(value, broker, 2 * offset))
        rows.append(row(report(BROKER, offset, [0, 1, 2], rng), BROKER, 2 * offset + 1))
        expected |= {2 * offset: rule, 2 * offset + 1: None}
    found = rules_of(spark, rows)
    names = {2 * number: case for number, case in enumerate(BAD)}
    wrong = {names.get(o, "good"): (rule, expected[o]) for o, rule in found.items() if rule != expected[o]}
    assert wrong == {}
    assert len(found) == len(rows)


def test_every_rule_has_a_case() -> None:
    elsewhere = {"no_timestamp", "future", "late", "too_many_bundles"}
    assert {rule for rule, _ in BAD.values()} | elsewhere == set(RULES)


def test_unknown_limits_and_a_missing_tail_are_fine(spark: SparkSession) -> None:
    rng = random.Random(1)
    pulsar = report(BROKER, 1, [0, 1], rng, tail=False)
    pulsar["resources"]["bandwidth_in"] = {"usage": 0.02, "limit": -1000.0}
    fresh = report(BROKER, 2, [], rng)
    fresh["resources"]["cpu"] = {"usage": -1, "limit": -1}
    without = report(BROKER, 3, [3], rng, tail=False)
    del without["tail"], without["sent_ms"]
    without["field_of_a_later_version"] = {"x": [1]}
    rows = [row(value, BROKER, n) for n, value in enumerate((pulsar, fresh, without))]
    assert rules_of(spark, rows) == {0: None, 1: None, 2: None}


def test_times_and_sizes(spark: SparkSession) -> None:
    rng = random.Random(2)
    day_ms = 86_400_000
    rows = [
        row(report(BROKER, 1, [0], rng), BROKER, 0, START_MS - day_ms),
        row(report(BROKER, 2, [0], rng), BROKER, 1, START_MS - day_ms - 1),
        row(report(BROKER, 3, [0], rng), BROKER, 2, -1),
        row(report(BROKER, 4, [0], rng), BROKER, 3, START_MS + 60_001),
        row(report(BROKER, 5, list(range(51)), rng), BROKER, 4),
        row(report(BROKER, 6, [0], rng), None, 5),
    ]
    expected = {0: None, 1: "late", 2: "no_timestamp", 3: "future", 4: "too_many_bundles", 5: "key_mismatch"}
    assert rules_of(spark, rows, late_ms=START_MS - day_ms) == expected


def test_quarantine_rows_keep_the_record(spark: SparkSession) -> None:
    rng = random.Random(3)
    rows = [
        row(b"\xff\xfe", BROKER, 10),
        row("x" * 100, BROKER, 11),
        row(report("evil:1", 1, [0], rng), BROKER, 12),
        row(report(BROKER, 1, [0], rng), BROKER, 13, START_MS - 10),
        row(None, BROKER, 14),
    ]
    settings = LoadsSettings(quarantine_raw_bytes=40, retention_ms=60_000)
    checked = judged(classify(frame(spark, rows), settings), START_MS, START_MS)
    found = {r["kafka_offset"]: r for r in bad_rows(checked).collect()}
    assert base64.b64decode(found[10]["raw"]) == b"\xff\xfe"
    assert found[10]["raw_base64"]
    assert found[11]["raw"] == "x" * 40
    assert not found[11]["raw_base64"]
    assert "b1:8080 reports for evil:1" in found[12]["text"]
    assert found[13]["rule"] == "late"
    assert found[13]["raw"].startswith('{"v":1,"broker":"b1:8080"')
    assert "retention of panes: 20" in found[13]["text"]
    assert found[14]["raw"] is None
    assert {r["topic"] for r in found.values()} == {"load-reports"}
    assert found[12]["kafka_timestamp_ms"] == START_MS


def test_counts_by_rule(spark: SparkSession) -> None:
    rng = random.Random(4)
    rows = [row("x", BROKER, n) for n in range(3)] + [row(report(BROKER, 9, [0, 1], rng), BROKER, 9)]
    seen = overview(judged(classify(frame(spark, rows), SMALL), 0, START_MS), 10_000)
    assert seen.bad == {"not_json": 3}
    assert seen.bundle_rows == 3
    assert (seen.first_event_ms, seen.last_event_ms) == (START_MS, START_MS)
