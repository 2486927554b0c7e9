"""The loads query end to end: reports through a real Kafka into Delta tables, stopped and started again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from controller.bus.topics import TopicNames
from controller.loads.settings import LoadsSettings
from controller.process.clock import wall_ms
from controller.testbed.kafka import EmbeddedKafka
from jobs.loads_batch import BatchReport
from jobs.loads_query import LoadsQuery, start_loads
from tests.spark.loads.loads_lake import Lake
from tests.spark.loads.loads_samples import bad_value, report

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


class World:
    """A topic, its producer, and the tables and the checkpoint of one query."""

    def __init__(self, spark: SparkSession, kafka: EmbeddedKafka, topics: TopicNames, folder: Path) -> None:
        self.spark = spark
        self.lake = Lake(spark, folder / "tables")
        self.settings = LoadsSettings(
            bootstrap_servers=kafka.bootstrap,
            topic=topics.load_reports,
            tables_root=str(folder / "tables"),
            checkpoint=str(folder / "checkpoint"),
            max_offsets_per_trigger=15,
            max_report_bytes=60_000,
            max_report_bundles=50,
            trigger_ms=200,
        )
        self.producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all")
        self.rng = random.Random(1)
        self.sent = 0

    def send(self, count: int, bad: tuple[str, ...] = ()) -> None:
        """Good reports of four brokers, and one bad record for each case named."""
        for _ in range(count):
            broker = f"b{self.sent % 4}:8080"
            doc = report(broker, self.sent, self.rng.sample(range(20), 5), self.rng)
            self._send(broker, doc)
            self.sent += 1
        for case in bad:
            self._send("b0:8080", bad_value(case, "b0:8080", self.rng)[1])
        self.producer.flush()

    def _send(self, key: str, value: object) -> None:
        raw = json.dumps(value).encode() if isinstance(value, dict) else value
        raw = raw.encode() if isinstance(raw, str) else raw
        self.producer.send(self.settings.topic, key=key.encode(), value=raw)

    def drain(self) -> list[BatchReport]:
        """Run the query until the topic's end."""
        seen: list[BatchReport] = []
        loads = start_loads(self.spark, self.settings, seen.append, available_now=True)
        assert loads.query.awaitTermination(240)
        assert loads.query.exception() is None
        assert loads.check_lost() == 0
        return seen

    def reports_in_panes(self) -> int:
        return sum(r["reports"] for r in self.lake.rows("broker_panes"))


@pytest.fixture
def world(spark: SparkSession, kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> World:
    return World(spark, kafka, topics, tmp_path)


def wait(seconds: float, loads: LoadsQuery, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert loads.query.isActive, loads.query.exception()
        assert time.monotonic() < deadline, "gave up waiting for the query"
        time.sleep(0.1)


@pytest.mark.covers("report-transport")
def test_reports_become_rows_and_a_restart_goes_on(world: World) -> None:
    started_ms = wall_ms()
    world.send(40, bad=("words", "NaN usage", "another's name"))
    first = world.drain()
    assert len(first) > 1  # the rate limit splits the backlog
    assert sum(b.reports for b in first) == 40
    world.send(20, bad=("one bundle twice",))
    second = world.drain()
    assert second[0].batch_id == first[-1].batch_id + 1
    assert world.reports_in_panes() == 60
    rules = sorted(r["rule"] for r in world.lake.rows("quarantine"))
    assert rules == ["duplicate_bundle", "key_mismatch", "nonfinite", "not_json"]
    load = world.lake.rows("broker_load")
    assert {r["broker"] for r in load} == {f"b{n}:8080" for n in range(4)}
    assert all(r["as_of_ms"] > started_ms for r in load)  # event time is Kafka's clock
    assert sum(r["reports"] for r in world.lake.rows("bundle_panes") if r["bundle"] == "tail") == 60


def test_stop_finishes_the_batch_and_a_running_query_follows_the_topic(world: World) -> None:
    seen: list[BatchReport] = []
    world.send(5)
    loads = start_loads(world.spark, world.settings, seen.append)
    wait(240, loads, lambda: sum(b.reports for b in seen) == 5)
    world.send(12)
    wait(240, loads, lambda: sum(b.reports for b in seen) == 17)
    loads.stop()
    assert not loads.query.isActive
    assert loads.failure is None
    world.send(3)
    later = world.drain()
    assert sum(b.reports for b in later) == 3
    assert world.reports_in_panes() == 20


def test_a_new_checkpoint_is_another_writer(world: World) -> None:
    """Batch numbers start at 0 again; nothing may be taken for a batch of the lost checkpoint."""
    world.send(6)
    world.drain()
    world.settings = LoadsSettings(**{**world.settings.__dict__, "checkpoint": world.settings.checkpoint + "-new"})
    world.drain()
    panes = world.lake.rows("broker_panes")
    assert len({r["writer"] for r in panes}) == 2
    assert world.reports_in_panes() == 12  # read twice from the topic's start, as asked
