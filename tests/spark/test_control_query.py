"""The control query on real Kafka, Spark and Delta: records in, journal entries out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest
from pyspark.sql import SparkSession

from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.topics import TopicNames, delete_topics, ensure_topics, live_topics
from controller.config.settings import Settings
from controller.domain.errors import AnotherController, ConfigError, ForeignCommit
from controller.domain.ownership import State
from controller.ledger.snapshots import Snapshots
from controller.ledger.tables import TableRoot
from controller.testbed.kafka import EmbeddedKafka
from jobs.control_query import CHECKPOINTS_KEPT
from tests.e2e.waiting import wait_until
from tests.spark.control_bench import Agents, Controller, Heartbeats, Journal, settings_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def settings(tmp_path: Path, kafka: EmbeddedKafka, topics: TopicNames) -> Settings:
    return settings_for(tmp_path, kafka.bootstrap, topics)


@pytest.fixture
def agents(kafka: EmbeddedKafka, topics: TopicNames) -> Iterator[Agents]:
    found = Agents(kafka.bootstrap, topics)
    yield found
    found.close()


def rows_of(settings: Settings, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = TableRoot(settings.tables.root).open(name).to_pyarrow_dataset().to_table().to_pylist()
    return rows


@pytest.mark.covers("initial-assignment")
def test_from_heartbeats_to_an_owner(settings: Settings, agents: Agents, spark: SparkSession) -> None:
    journal = Journal(settings)
    with Controller(settings, spark), Heartbeats(agents, "b1:80", "b2:80"):
        state = journal.wait(lambda s: len(s.sessions) == 2, "registration")
        assert state.mode == "live"
        for _ in range(2):
            agents.command("c1", "create_namespace", namespace="t/n", bundles=2)
        state = journal.wait(lambda s: "t/n" in s.namespaces, "namespace")
        bundle = str(state.namespaces["t/n"][0])
        agents.assign_request("b1:80", bundle)
        state = journal.wait(lambda s: s.bundles[bundle].state is State.ASSIGNING, "assignment")
        owner, epoch = state.bundles[bundle].to, state.bundles[bundle].epoch
        assert owner is not None
        agents.event("serving", owner.broker, bundle=bundle, epoch=epoch, applied_seq=state.seq)
        journal.wait(lambda s: s.bundles[bundle].state is State.OWNED, "ownership")
    assert [e.command_id for e in journal.of_kind("command_accepted")] == ["c1"]
    assert journal.of_kind("command_rejected") == []
    assert journal.entries[-1].kind.value == "controller_stopped"
    ownership = {row["bundle"]: row for row in rows_of(settings, "ownership")}
    assert ownership[bundle]["by_broker"] == owner.broker
    assert {row["broker"] for row in rows_of(settings, "brokers")} == {"b1:80", "b2:80"}
    base = Snapshots(TableRoot(settings.tables.root)).latest()
    assert base is not None
    assert base.seq == journal.state.seq
    assert [row["config_version"] for row in rows_of(settings, "config_history")] == [settings.version]


@pytest.mark.covers("broker-dies")
def test_a_silent_broker_loses_its_bundles(settings: Settings, agents: Agents, spark: SparkSession) -> None:
    journal = Journal(settings)
    with Controller(settings, spark), Heartbeats(agents, "b1:80", "b2:80") as alive:
        journal.wait(lambda s: len(s.sessions) == 2, "registration")
        agents.command("c1", "create_namespace", namespace="t/n", bundles=1)
        state = journal.wait(lambda s: "t/n" in s.namespaces, "namespace")
        bundle = str(state.namespaces["t/n"][0])
        agents.assign_request("b1:80", bundle)
        state = journal.wait(lambda s: s.bundles[bundle].to is not None, "assignment")
        first = state.bundles[bundle].to
        assert first is not None
        agents.event("serving", first.broker, bundle=bundle, epoch=state.bundles[bundle].epoch, applied_seq=state.seq)
        journal.wait(lambda s: s.bundles[bundle].by == first, "ownership")
        alive.brokers.remove(first.broker)
        state = journal.wait(lambda s: s.bundles[bundle].to not in (None, first), "failover")
        second = state.bundles[bundle].to
    assert second is not None
    assert second.broker != first.broker
    assert [e.reason for e in journal.of_kind("session_ended")] == ["lease"]


def test_a_restart_goes_on_and_applies_nothing_twice(settings: Settings, agents: Agents, spark: SparkSession) -> None:
    journal = Journal(settings)
    with Controller(settings, spark), Heartbeats(agents, "b1:80"):
        agents.command("c1", "create_namespace", namespace="t/one", bundles=1)
        journal.wait(lambda s: "t/one" in s.namespaces, "first namespace")
    agents.command("c2", "create_namespace", namespace="t/two", bundles=1)  # while nobody listens
    agents.flush()
    with Controller(settings, spark) as second:
        journal.wait(lambda s: "t/two" in s.namespaces, "second namespace")
        assert (
            second.metric("ballast_control_missing_records_total", topic=f"{settings.kafka.topic_prefix}commands") == 0
        )
    assert [e.command_id for e in journal.of_kind("command_accepted")] == ["c1", "c2"]
    assert len({e.instance for e in journal.of_kind("controller_started")}) == 2


@pytest.mark.thorough
def test_whatever_becomes_of_a_checkpoint_reading_goes_on_at_the_journaled_offsets(
    settings: Settings, agents: Agents, spark: SparkSession, tmp_path: Path
) -> None:
    """Lost, an older one restored, its offsets log lost, a file cut off: the journal alone says where to go on."""
    journal = Journal(settings)
    commands = f"{settings.kafka.topic_prefix}commands"
    checkpoints, saved = Path(settings.tables.checkpoints), tmp_path / "old"

    def newest() -> Path:
        return max((checkpoints / "control").iterdir())

    def older_one() -> None:
        shutil.rmtree(checkpoints)
        shutil.copytree(saved, checkpoints)

    def cut_off() -> None:
        for file in (newest() / "offsets").iterdir():
            file.write_bytes(b"")

    damages: list[Callable[[], object]] = [
        lambda: shutil.copytree(checkpoints, saved),  # nothing is lost, a copy is kept
        lambda: shutil.rmtree(checkpoints),
        lambda: shutil.rmtree(newest() / "offsets"),
        cut_off,
        older_one,
    ]
    for number, damage in enumerate([*damages, None]):
        agents.command(f"c{number}", "create_namespace", namespace=f"t/n{number}", bundles=1)
        agents.flush()
        with Controller(settings, spark) as running:
            journal.wait(lambda s, n=number: f"t/n{n}" in s.namespaces, f"namespace {number}")  # type: ignore[misc]
            assert running.metric("ballast_control_records_total", topic=commands) == 1
            assert running.metric("ballast_control_missing_records_total", topic=commands) == 0
        if damage is not None:
            damage()
    assert [e.command_id for e in journal.of_kind("command_accepted")] == [f"c{n}" for n in range(6)]
    assert len(list((checkpoints / "control").iterdir())) <= CHECKPOINTS_KEPT + 1


@pytest.mark.thorough
def test_an_older_copy_of_the_tables_reads_again_what_it_does_not_know(
    settings: Settings, agents: Agents, spark: SparkSession, tmp_path: Path
) -> None:
    """The checkpoint that is there has seen those records; going by it they would be skipped without a word."""
    journal = Journal(settings)
    with Controller(settings, spark):
        agents.command("c0", "create_namespace", namespace="t/n0", bundles=1)
        journal.wait(lambda s: "t/n0" in s.namespaces, "what the copy holds")
    shutil.copytree(settings.tables.root, tmp_path / "copy")
    with Controller(settings, spark):
        agents.command("c1", "create_namespace", namespace="t/n1", bundles=1)
        journal.wait(lambda s: "t/n1" in s.namespaces, "what it does not hold")
    shutil.rmtree(settings.tables.root)
    shutil.copytree(tmp_path / "copy", settings.tables.root)
    restored = Journal(settings)
    assert set(restored.state.namespaces) == {"t/n0"}
    with Controller(settings, spark) as third:
        restored.wait(lambda s: "t/n1" in s.namespaces, "the command that was read again")
        commands = f"{settings.kafka.topic_prefix}commands"
        assert third.metric("ballast_control_missing_records_total", topic=commands) == 0
    assert [e.command_id for e in restored.of_kind("command_accepted")] == ["c0", "c1"]


def test_quiet_records_are_read_once_and_journaled_at_the_stop(
    settings: Settings, agents: Agents, spark: SparkSession
) -> None:
    """Inventories that change nothing commit nothing; the stop says how far they were read."""
    journal = Journal(settings)
    events = f"{settings.kafka.topic_prefix}broker-events"
    with Controller(settings, spark) as first, Heartbeats(agents, "b1:80"):
        journal.wait(lambda s: len(s.sessions) == 1, "registration")
        before = journal.state.seq
        for _ in range(5):
            agents.event("inventory", "b1:80", serving={})
        agents.flush()
        wait_until(lambda: first.metric("ballast_control_records_total", topic=events) == 5, 120)
        assert journal.state.seq == before
    assert journal.state.offsets[events] == {"0": 5}
    agents.command("c1", "mode", mode="paused")
    with Controller(settings, spark) as second:
        journal.wait(lambda s: s.mode == "paused", "a command of later")
        assert second.metric("ballast_control_records_total", topic=events) == 0


def test_hostile_records_change_nothing(settings: Settings, agents: Agents, spark: SparkSession) -> None:
    names = TopicNames(settings.kafka.topic_prefix)
    hostile = [
        b"", b"\x00\xff\xfe", b"{", b"null", b'{"v":99}', b'{"v":1,"id":"x","kind":"mode","why":"\\udc00"}',
        b'{"v":1,"broker":"b 1","incarnation":-1,"nonce":"!","session":0,"applied_seq":0}',
        b'{"v":1,"kind":"goodbye","broker":"b1:80"}', b'{"v":1,"kind":"tick","instance":"","seq":1}', b"[" * 50_000,
    ]  # fmt: skip
    journal = Journal(settings)
    with Controller(settings, spark), Heartbeats(agents, "b1:80"):
        journal.wait(lambda s: len(s.sessions) == 1, "registration")
        before = journal.state.seq
        for topic in names.control:
            for raw in hostile:
                agents.raw(topic, raw)
        agents.command("after", "create_namespace", namespace="t/n", bundles=1)
        journal.wait(lambda s: "t/n" in s.namespaces, "a good command behind the bad ones")
    bad = rows_of(settings, "quarantine")
    assert len(bad) == len(hostile) * len(names.control)
    assert {row["source"] for row in bad} == {"control"}
    assert {"empty", "not_json", "not_object", "version"} <= {row["rule"] for row in bad}
    caused = {e.kind.value for e in journal.entries if e.seq > before}
    assert caused <= {"offsets", "command_accepted", "namespace_created", "controller_stopped"}


def test_every_entry_is_on_the_feed_with_its_seq(settings: Settings, agents: Agents, spark: SparkSession) -> None:
    names = TopicNames(settings.kafka.topic_prefix)
    seen: list[dict[str, Any]] = []

    def keep(batch: list[KafkaRecord]) -> None:
        seen.extend(json.loads(record.value) for record in batch)

    reader = TopicReader(settings.kafka.bootstrap_servers, [names.journal_feed], keep, start="beginning")
    reader.start()
    journal = Journal(settings)
    with Controller(settings, spark) as running:
        agents.command("c1", "create_namespace", namespace="t/n", bundles=4)
        journal.wait(lambda s: "t/n" in s.namespaces, "namespace")
        journal.wait(lambda s: any(r.get("seq") == s.seq for r in list(seen)), "the newest seq, repeated")
    journal.wait(lambda s: any(e["seq"] == s.seq for r in list(seen) for e in r.get("entries", ())), "the last entry")
    reader.stop()
    told = [row for record in seen for row in record.get("entries", ())]
    assert [row["seq"] for row in told] == [e.seq for e in journal.entries]
    assert {record["instance"] for record in seen} == {running.part.instance}


@pytest.mark.covers("who-decides")
def test_a_second_controller_refuses_to_start(settings: Settings, spark: SparkSession) -> None:
    journal = Journal(settings)
    with Controller(settings, spark) as first:
        journal.wait(lambda s: s.controller_running, "start")
        second = Controller(settings, spark)
        with pytest.raises(AnotherController, match=first.part.instance):
            second.part.start(spark)
        second.part.stop(clean=False)
    assert len(journal.of_kind("controller_started")) == 1


def test_the_older_controller_loses_a_take_over(
    settings: Settings, agents: Agents, spark: SparkSession, tmp_path: Path
) -> None:
    journal = Journal(settings)
    first = Controller(settings, spark)
    first.part.start(spark)
    journal.wait(lambda s: s.controller_running, "start")
    with Controller(settings, spark, "--take-over", "--checkpoint", str(tmp_path / "other")) as second:
        agents.command("c1", "create_namespace", namespace="t/n", bundles=1)
        journal.wait(lambda s: "t/n" in s.namespaces and first.part.failure() is not None, "the older one's end")
        assert isinstance(first.part.failure(), ForeignCommit)
        assert second.part.instance in str(first.part.failure())
        first.part.stop(clean=False, failed=str(first.part.failure()))  # it holds nothing any more, and writes nothing
        assert second.part.failure() is None
    assert [e.command_id for e in journal.of_kind("command_accepted")] == ["c1"]
    assert [e.instance for e in journal.of_kind("controller_stopped")] == [second.part.instance]


def test_what_ends_the_job_beside_the_control_query_is_journaled(settings: Settings, spark: SparkSession) -> None:
    """Else `ballast status` would call the controller silent, and the next start would listen for it."""
    journal = Journal(settings)
    running = Controller(settings, spark)
    running.part.start(spark)
    journal.wait(lambda s: s.controller_running, "start")
    running.part.stop(clean=False, failed="the loads query ended: no space left")
    state = journal.wait(lambda s: not s.controller_running, "stop")
    assert [e.data for e in journal.of_kind("controller_stopped")] == [
        {"failed": "the loads query ended: no space left"}
    ]
    with Controller(settings, spark):
        journal.wait(lambda s: s.controller_running and s.seq > state.seq, "the next start")


def test_another_kafka_stops_the_start(settings: Settings, spark: SparkSession, topics: TopicNames) -> None:
    with Controller(settings, spark):
        pass
    delete_topics(settings.kafka.bootstrap_servers, [topics.commands])
    ensure_topics(settings.kafka.bootstrap_servers, live_topics(topics))
    again = Controller(settings, spark)
    with pytest.raises(ConfigError, match=rf"{topics.commands} was deleted and created again"):
        again.part.start(spark)
    again.part.stop(clean=False)


def test_journal_rows_match_their_definition(settings: Settings, spark: SparkSession) -> None:
    with Controller(settings, spark):
        pass
    dataset = TableRoot(settings.tables.root).open("journal").to_pyarrow_dataset()
    kinds = dataset.to_table(columns=["kind"], filter=pads.field("seq") > 0)["kind"].to_pylist()
    assert sorted(kinds)[0] == "controller_started"
    assert "controller_stopped" in kinds
