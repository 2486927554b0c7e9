"""The job's two queries start on what an earlier version left: its tables, its checkpoints, its Kafka."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.entries import Kind
from controller.ledger.loads import loads_progress
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot
from controller.service.arguments import parse_arguments
from controller.testbed.kafka import EmbeddedKafka
from jobs.loads_runner import LoadsRunner
from schemas.catalog import TABLES
from tests.e2e.waiting import wait_until
from tests.spark.control_bench import Agents, Controller, Journal
from tests.spark.loads.loads_samples import report
from tests.stored_state import VERSIONS, folder_of
from tests.stored_state.archive import LIVE_RUN, unpack_live

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def settings_of(run: Path, kafka: EmbeddedKafka) -> Settings:
    places = {
        "tables.root": run / "tables",
        "tables.checkpoints": run / "checkpoints",
        "kafka.bootstrap_servers": kafka.bootstrap,
    }
    return load_settings(run / "ballast.yaml", overrides=[f"{key}={value}" for key, value in places.items()], env={})


def newest_batch(run: Path) -> int:
    """Of the loads query, as its checkpoint says."""
    return max(int(path.name) for path in (run / "checkpoints/loads/commits").iterdir() if path.name.isdigit())


def say_loads(settings: Settings, names: TopicNames) -> None:
    """A report of a broker that the older version knew."""
    producer = JsonProducer(settings.kafka.bootstrap_servers, "test-reports", settings.kafka.client)
    document: dict[str, Any] = report("broker-2", 1_000_000, [1, 2], random.Random(1))
    producer.send(names.load_reports, document, key="broker-2")
    producer.flush()
    producer.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_job_goes_on_where_an_older_version_ended(
    version: str, spark: SparkSession, short_lived_jvms: None, tmp_path: Path
) -> None:
    run = unpack_live(folder_of(version) / LIVE_RUN, tmp_path)
    with EmbeddedKafka(run / "kafka") as kafka:
        settings = settings_of(run, kafka)
        root, names = TableRoot(settings.tables.root), TopicNames(settings.kafka.topic_prefix)
        before, loads_before = load_state(root), loads_progress(root)
        query_id = json.loads((run / "checkpoints/loads/metadata").read_text())["id"]
        batch = newest_batch(run)
        assert loads_before is not None
        journal, agents = Journal(settings), Agents(kafka.bootstrap, names)
        loads = LoadsRunner(settings, parse_arguments([]), CollectorRegistry())
        try:
            with Controller(settings, spark) as controller:
                loads.start(spark)
                agents.command("fresh", "create_namespace", namespace="new/one", bundles=2)
                say_loads(settings, names)
                state = journal.wait(lambda s: "new/one" in s.namespaces, "a command carried out")
                wait_until(
                    lambda: loads_progress(root).newest_event_ms > loads_before.newest_event_ms,  # type: ignore[union-attr]
                    60,
                )  # fmt: skip
                assert loads.failure() is None
                assert controller.part.failure() is None
                assert str(loads._loads.query.id) == query_id, "the checkpoint was not taken"  # type: ignore[union-attr]
        finally:
            loads.stop(clean=True)
            agents.close()
    assert newest_batch(run) > batch
    started = [e for e in journal.entries if e.kind is Kind.CONTROLLER_STARTED]
    assert [e.data["version"] for e in started][-1] != started[0].data["version"]
    assert state.mode == before.mode
    assert set(before.bundles) < set(state.bundles)
    assert list(state.overrides) == list(before.overrides)
    for name, record in TABLES.items():
        assert {f.name for f in root.open(name).schema().fields} == set(record.names)
