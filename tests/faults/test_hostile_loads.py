"""The loads query among hostile records on a real Kafka: it goes on, everything bad is named by a rule, and panes and
averages are those of the good reports alone. A query on a topic of the good reports alone says what these are."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError
from pyspark.sql import SparkSession

from controller.bus.cluster import admin_client
from controller.bus.producer import JsonProducer
from controller.bus.topics import CREATE_TIME, TopicNames, TopicSpec, ensure_topics
from controller.loads.rules import RULES
from controller.loads.settings import LoadsSettings
from controller.process.clock import wall_ms
from controller.testbed.kafka import EmbeddedKafka
from jobs.loads_batch import BatchReport
from jobs.loads_query import start_loads
from tests.component.loads.test_loads_hostile import EDITS, long_report
from tests.spark.loads.loads_lake import Lake, merged
from tests.spark.loads.loads_samples import BAD, bad_value, report

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.kafka]

MIB = 2**20
HOUR_MS = 3_600_000
BROKERS = [f"b{n}:8080" for n in range(4)]
Record = tuple[str, bytes, int]  # key, value, time


class Side:
    """A topic of any record size and any time, and what the query makes of it."""

    def __init__(self, spark: SparkSession, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
        spec = TopicSpec(topic, 4, -1, CREATE_TIME)
        configs = {**spec.settings, "max.message.bytes": str(40 * MIB)}
        with admin_client(kafka.bootstrap) as admin:
            admin.create_topics({topic: {"num_partitions": 4, "replication_factor": 1, "configs": configs}})
            admin.wait_for_topics([topic])
        self.spark, self.lake = spark, Lake(spark, folder / "tables")
        self.settings = LoadsSettings(
            bootstrap_servers=kafka.bootstrap,
            topic=topic,
            tables_root=str(folder / "tables"),
            checkpoint=str(folder / "checkpoint"),
            max_offsets_per_trigger=80,
        )
        self.producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", max_request_size=40 * MIB)

    def send(self, records: list[Record]) -> None:
        """In order, each at its time."""
        for key, value, at_ms in records:
            self.producer.send(self.settings.topic, key=key.encode(), value=value or None, timestamp_ms=at_ms)
        self.producer.flush()

    def drain(self) -> list[BatchReport]:
        """A query of its own to the topic's end: the state of the one before is gone."""
        seen: list[BatchReport] = []
        loads = start_loads(self.spark, self.settings, seen.append, available_now=True)
        assert loads.query.awaitTermination(240)
        assert loads.query.exception() is None
        return seen

    def averages(self, table: str, keys: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The newest row of each (as_of, key), without who wrote it."""
        rows = sorted(self.lake.rows(table), key=lambda r: r["batch_id"])
        return {
            tuple(r[key] for key in ("as_of_ms", *keys)): {
                name: value for name, value in r.items() if name not in ("writer", "batch_id")
            }
            for r in rows
        }


def good_reports(start_ms: int, first: int, count: int, rng: random.Random) -> list[Record]:
    """One broker after the other, a report a second."""
    found = []
    for number in range(first, first + count):
        broker, at_ms = BROKERS[number % len(BROKERS)], start_ms + number * 1_000
        sequence = number // len(BROKERS)  # dense for each broker, as agents number them
        document = report(broker, sequence, rng.sample(range(20), 6), rng, tail=rng.random() < 0.5)
        found.append((broker, json.dumps(document).encode(), at_ms))
    return found


def hostile(good: list[Record], now_ms: int, rng: random.Random) -> tuple[list[Record], Counter[str]]:
    """Bad records, and how many of which rule at least."""
    found: list[Record] = []
    wanted: Counter[str] = Counter()

    def add(rule: str | None, key: str, value: bytes, at_ms: int = good[-1][2]) -> None:
        found.append((key, value, at_ms))
        wanted.update([rule] if rule else [])

    settings_of_samples = {"too_large"}  # that sample is too large for other limits only
    for case, (rule, _) in BAD.items():
        value = bad_value(case, BROKERS[0], rng)[1]
        key = value["broker"] if rule == "broker_id" and isinstance(value, dict) else BROKERS[0]
        raw = json.dumps(value).encode() if isinstance(value, dict) else value
        raw = raw.encode() if isinstance(raw, str) else raw
        if rule not in settings_of_samples:
            add(rule, key, raw or b"")
    for key, value, at_ms in rng.sample(good, 10):
        add("duplicate", key, value, at_ms)
        add("key_mismatch", "liar:8080", value, at_ms)
    fresh = [report(BROKERS[1], 90_000 + n, [1, 2], rng) for n in range(6)]
    for document in fresh[:3]:
        add("future", BROKERS[1], json.dumps(document).encode(), now_ms + HOUR_MS)
    for document in fresh[3:]:
        add("late", BROKERS[1], json.dumps(document).encode(), now_ms - 30 * HOUR_MS)
    add("too_large", BROKERS[2], b'{"v":1,"pad":"' + b"x" * 10 * MIB + b'"}')
    add("too_large", BROKERS[2], long_report(100_000))
    add("too_many_bundles", "b1:8080", long_report(20_001))
    add("missing_field", BROKERS[2], b'{"v":1,"bundles":[' + b"{}," * 99_999 + b"{}]}")
    for number in range(200):
        add(None, "nobody:1", EDITS.example() if number < 40 else rng.randbytes(rng.randrange(1, 300)))
    rng.shuffle(found)
    return found, wanted


@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
def test_panes_and_averages_are_those_of_the_good_reports(
    spark: SparkSession, kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path
) -> None:
    """Three parts; before each the query starts anew on its checkpoint, with nothing in memory."""
    rng, now_ms = random.Random(17), wall_ms()
    start_ms = now_ms - HOUR_MS
    wild = Side(spark, kafka, f"{topics.prefix}wild", tmp_path / "wild")
    calm = Side(spark, kafka, f"{topics.prefix}calm", tmp_path / "calm")
    wanted: Counter[str] = Counter()
    sent, quarantined, reports = 0, 0, 0
    good: list[Record] = []
    for part in range(3):
        fresh = good_reports(start_ms, 30 * part, 30, rng)
        good += fresh
        calm.send(fresh)
        calm.drain()
        wild.send(fresh[:-1])
        # what is late is told by the batches before, so the first one is calm
        bad, rules = hostile(good[:-1], now_ms, rng) if part else ([], Counter[str]())
        wanted += rules
        wild.send(bad)
        wild.send(fresh[-1:])
        sent += len(bad)
        batches = wild.drain()
        quarantined += sum(sum(b.quarantined.values()) for b in batches)
        reports += sum(b.reports for b in batches)
    assert reports == len(good) == sum(r["reports"] for r in wild.lake.rows("broker_panes"))
    assert quarantined == sent
    rows = wild.lake.rows("quarantine")
    assert len({(r["partition"], r["kafka_offset"]) for r in rows}) == len(rows) == sent
    found = Counter(r["rule"] for r in rows)
    assert set(found) <= set(RULES)
    assert {rule: found[rule] >= count for rule, count in wanted.items()} == dict.fromkeys(wanted, True)
    for table, keys in (("broker_panes", ("broker", "incarnation")), ("bundle_panes", ("bundle", "broker"))):
        mine, theirs = (merged(side.lake.rows(table), ("pane_end_ms", *keys)) for side in (wild, calm))
        assert set(mine) == set(theirs)
        assert all(mine[key] == pytest.approx(theirs[key], rel=1e-12) for key in theirs)
    for table, keys in (("broker_load", ("broker", "incarnation")), ("bundle_load", ("bundle", "broker"))):
        mine, theirs = (side.averages(table, keys) for side in (wild, calm))
        assert set(mine) == set(theirs)
        for key, row in theirs.items():
            close = {name: pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for name, v in row.items()}
            assert mine[key] == close, (table, key)


def test_a_report_of_ten_megabytes_is_refused_where_it_is_sent(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    """The agent's producer says so at once; another producer is told by Kafka; reports after it are delivered."""
    ensure_topics(kafka.bootstrap, [TopicSpec(topics.load_reports, 4, HOUR_MS)])
    large = {"v": 1, "broker": "b1:8080", "pad": "x" * 10 * MIB}
    agent = JsonProducer(kafka.bootstrap, "test-agent")
    refused = agent.send(topics.load_reports, large, key="b1:8080")
    with pytest.raises(MessageSizeTooLargeError, match="bytes"):
        refused.result(30)
    assert agent.failed == 1
    assert isinstance(agent.last_error, MessageSizeTooLargeError)
    assert agent.send(topics.load_reports, {"v": 1}, key="b1:8080").result(30)[1] == 0
    agent.close()
    stranger = KafkaProducer(bootstrap_servers=kafka.bootstrap, max_request_size=20 * MIB)
    with pytest.raises(MessageSizeTooLargeError):
        stranger.send(topics.load_reports, key=b"b1:8080", value=json.dumps(large).encode()).get(30)
    stranger.close()
