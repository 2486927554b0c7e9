"""Panes against plain Python, with hostile records among the good ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from controller.domain.load import BUNDLE_FIELDS, RESOURCES, TAIL
from tests.spark.loads.loads_lake import PANE_MS, Lake, merged
from tests.spark.loads.loads_samples import BAD, START_MS, Row, bad_value, report, row

pytestmark = pytest.mark.spark
BROKER_KEYS = ("pane_end_ms", "broker", "incarnation")
BUNDLE_KEYS = ("pane_end_ms", "bundle", "namespace", "broker")


def naive(reports: list[tuple[int, dict[str, Any]]]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Panes of brokers and of bundles, one report after the other."""
    brokers: dict[Any, Any] = {}
    bundles: dict[Any, Any] = {}
    for event_ms, doc in reports:
        end = (event_ms // PANE_MS + 1) * PANE_MS
        pane = brokers.setdefault((end, doc["broker"], doc["incarnation"]), {})
        values = {"reports": 1, "bundles_sum": doc["totals"]["bundles"]}
        for name in RESOURCES:
            usage, limit = doc["resources"][name]["usage"], doc["resources"][name]["limit"]
            known = limit > 0
            values |= {f"{name}_usage_sum": usage if known else 0, f"{name}_limit_sum": limit if known else 0}
            values |= {f"{name}_usage_max": usage if known else 0, f"{name}_known": int(known)}
        for name in ("rpc_queue_ms", "metadata_latency_ms"):
            values |= {f"{name}_sum": doc[name], f"{name}_max": doc[name]}
        values |= {f"{name}_sum": doc["totals"][name] for name in BUNDLE_FIELDS}
        values |= {"last_sequence": doc["sequence"], "last_event_ms": event_ms}
        _merge(pane, values)
        tail = [{**doc["tail"], "bundle": TAIL}] if doc["tail"] else []
        for stats in [*doc["bundles"], *tail]:
            name = stats["bundle"]
            namespace = "" if name == TAIL else name.rsplit("/", 1)[0]
            values = {"reports": 1} | {f"{f}_{part}": stats[f] for f in BUNDLE_FIELDS for part in ("sum", "max")}
            _merge(bundles.setdefault((end, name, namespace, doc["broker"]), {}), values)
    return brokers, bundles


def _merge(pane: dict[str, float], values: dict[str, float]) -> None:
    for name, value in values.items():
        adds = name == "reports" or name.endswith(("_sum", "_known"))
        pane[name] = pane[name] + value if adds and name in pane else max(pane.get(name, value), value)


def traffic(seed: int, count: int) -> list[tuple[int, dict[str, Any]]]:
    rng = random.Random(seed)
    out = []
    for number in range(count):
        broker = f"b{rng.randrange(4)}:8080"
        doc = report(broker, number, rng.sample(range(30), rng.randrange(0, 12)), rng, tail=rng.random() < 0.7)
        if rng.random() < 0.3:
            doc["resources"]["bandwidth_in"] = {"usage": 5.0, "limit": -1000.0}
        out.append((START_MS + rng.randrange(0, 45_000), doc))
    return out


def assert_panes(lake: Lake, reports: list[tuple[int, dict[str, Any]]]) -> None:
    brokers, bundles = naive(reports)
    for name, keys, expected in (("broker_panes", BROKER_KEYS, brokers), ("bundle_panes", BUNDLE_KEYS, bundles)):
        found = merged(lake.rows(name), keys)
        assert set(found) == set(expected)
        for key, values in expected.items():
            assert found[key] == pytest.approx(values, rel=1e-12), (name, key)


def test_panes_of_several_batches_merge_to_the_plain_sums(spark: SparkSession, tmp_path: Path) -> None:
    lake, reports = Lake(spark, tmp_path, keyed=False), traffic(1, 60)
    records = [row(doc, doc["broker"], offset, at) for offset, (at, doc) in enumerate(reports)]
    for number in range(3):
        lake.run(records[number * 20 : number * 20 + 20], number)
    assert_panes(lake, reports)
    assert lake.rows("quarantine") == []


def test_a_late_report_adds_a_partial(spark: SparkSession, tmp_path: Path) -> None:
    lake, reports = Lake(spark, tmp_path, retention_ms=60_000), traffic(2, 8)
    records = [row(doc, doc["broker"], offset, at) for offset, (at, doc) in enumerate(reports)]
    lake.run(records[:6], 0)
    newest = max(r["pane_end_ms"] for r in lake.rows("broker_panes"))
    rng = random.Random(5)
    late, too_late = report("b0:8080", 90, [1], rng), report("b0:8080", 91, [1], rng)
    at, too_old = newest - 60_000, newest - 60_001
    result = lake.run([row(late, "b0:8080", 90, at), row(too_late, "b0:8080", 91, too_old), *records[6:]], 1)
    assert result.quarantined == {"late": 1}
    assert_panes(lake, [*reports, (at, late)])
    assert [(r["rule"], r["kafka_offset"]) for r in lake.rows("quarantine")] == [("late", 91)]


def test_a_thousand_hostile_records_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(11)
    reports = traffic(3, 40)
    records: list[Row] = [row(doc, doc["broker"], offset, at) for offset, (at, doc) in enumerate(reports)]
    expected = {}
    for offset in range(1000, 2000):
        rule, value = bad_value(rng.choice([*BAD]), "b1:8080", rng)
        key = value["broker"] if rule == "broker_id" and isinstance(value, dict) else "b1:8080"
        expected[offset] = rule
        records.append(row(value, key, offset, START_MS + rng.randrange(0, 45_000)))
    rng.shuffle(records)
    lake = Lake(spark, tmp_path, keyed=False, max_report_bytes=60_000, max_report_bundles=50)
    for number in range(4):
        lake.run(records[number::4], number)
    assert {r["kafka_offset"]: r["rule"] for r in lake.rows("quarantine")} == expected
    assert_panes(lake, reports)
