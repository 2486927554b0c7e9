"""Two journals on one Kafka: whose topics they are, and what becomes of the other one. Real Kafka, Spark and tables."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controller.brokers.reference.store.client import StoreClient
from controller.bus.topic_owner import STOPPED
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.config.sections.platform import Store
from controller.config.settings import Settings
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController, ConfigError
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.ledger.journal_commit import Journal as Ledger
from controller.ledger.tables import TableRoot
from controller.process.children import Child
from controller.service.kafka_identity import kafka_identity
from controller.service.topic_claim import TopicClaim
from controller.testbed.kafka import EmbeddedKafka
from tests.spark.control_bench import Agents, Controller, Heartbeats, Journal, settings_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

WHOLE = "t/n/0x00000000_0xffffffff"


@pytest.fixture
def settings(tmp_path: Path, kafka: EmbeddedKafka, topics: TopicNames) -> Settings:
    return settings_for(tmp_path, kafka.bootstrap, topics)


@pytest.fixture
def elsewhere(tmp_path: Path, kafka: EmbeddedKafka, topics: TopicNames) -> Settings:
    """The same Kafka and topics from another working directory."""
    return settings_for(tmp_path / "elsewhere", kafka.bootstrap, topics)


@pytest.fixture
def agents(kafka: EmbeddedKafka, topics: TopicNames) -> Iterator[Agents]:
    found = Agents(kafka.bootstrap, topics)
    yield found
    found.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """The address of a segment store."""
    argv = ["-m", "controller.brokers.reference.store.server", "--data-dir", str(tmp_path / "store")]
    child = Child("store", [sys.executable, *argv], tmp_path / "store.log")
    yield child.wait_for_line("ballast-store listening", 60).split()[-1]
    child.stop(30)


def refused(settings: Settings, spark: SparkSession, match: str, *arguments: str) -> None:
    """A start that ends before it has written an entry."""
    part = Controller(settings, spark, *arguments).part
    with pytest.raises(AnotherController, match=match):
        part.start(spark)
    part.stop(clean=False)


def owner_of(settings: Settings, topics: TopicNames) -> tuple[str, str]:
    """The journal that the topics are said to belong to, and in which state."""
    owner = TopicClaim(settings.kafka.bootstrap_servers, topics.owner, {}, "looker", "").look().owner
    assert owner is not None
    return owner.journal_id, owner.state


def test_a_start_from_another_folder_is_refused_and_the_first_goes_on(
    settings: Settings, elsewhere: Settings, agents: Agents, spark: SparkSession, topics: TopicNames
) -> None:
    journal = Journal(settings)
    with Controller(settings, spark) as first, Heartbeats(agents, "b1:80"):
        agents.command("c1", "mode", mode="live")
        state = journal.wait(lambda s: "c1" in s.commands and len(s.sessions) == 1, "the first command")
        refused(elsewhere, spark, rf"belong to journal {state.journal_id} \(tables {settings.tables.root};.*elsewhere")
        refused(elsewhere, spark, str(state.journal_id), "--take-over")
        assert not Path(elsewhere.tables.root).exists(), "no old command was run, no agent was claimed"
        stray = {"v": 1, "kind": "tick", "instance": "stray", "seq": 9_999, "journal_id": "other"}
        agents.raw(topics.heartbeats, json.dumps(stray).encode())
        journal.wait(lambda s: bool(journal.of_kind("alarm")), "the alarm")
        (alarm,) = journal.of_kind("alarm")
        assert (alarm.reason, alarm.data) == ("stray_controller", {"journal_id": "other", "instance": "stray"})
        agents.command("c2", "mode", mode="paused")
        journal.wait(lambda s: "c2" in s.commands, "a command after it")
        assert first.part.failure() is None
    assert owner_of(settings, topics) == (state.journal_id, STOPPED)
    refused(elsewhere, spark, "stopped")
    with Controller(settings, spark):
        assert len(journal.of_kind("controller_started")) == 2


def test_of_two_that_start_at_once_in_two_folders_one_is_left(
    settings: Settings, elsewhere: Settings, spark: SparkSession, topics: TopicNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read that the topics are nobody's before either says so."""
    gate, look = threading.Barrier(2), TopicClaim.look

    def look_together(claimant: TopicClaim) -> object:
        seen = look(claimant)
        gate.wait(60)
        return seen

    monkeypatch.setattr(TopicClaim, "look", look_together)
    parts = {s.tables.root: Controller(s, spark).part for s in (settings, elsewhere)}
    said: dict[str, BaseException | None] = {}

    def start(root: str) -> None:
        try:
            parts[root].start(spark)
            said[root] = None
        except AnotherController as error:
            said[root] = error

    threads = [threading.Thread(target=start, args=(root,)) for root in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    (loser,) = [root for root, error in said.items() if error is not None]
    (winner,) = [root for root, error in said.items() if error is None]
    assert winner in str(said[loser])
    parts[loser].stop(clean=False)
    kinds = [e.kind for e in Ledger(TableRoot(loser)).read_since(0)]
    assert (kinds[0], kinds[-1]) == (Kind.CONTROLLER_STARTED, Kind.CONTROLLER_STOPPED)
    assert parts[winner].failure() is None
    parts[winner].stop(clean=True)
    again = settings if settings.tables.root == loser else elsewhere
    refused(again, spark, winner)


@pytest.mark.thorough
def test_wiped_tables_are_refused_until_an_operator_gives_the_topics_to_a_new_journal(
    settings: Settings, agents: Agents, spark: SparkSession, store: str, topics: TopicNames,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    settings = settings.model_copy(update={"store": Store(address=store)})
    with Controller(settings, spark), Heartbeats(agents, "b1:80"):
        agents.command("old", "create_namespace", namespace="t/n", bundles=1)
        journal = Journal(settings)
        before = journal.wait(lambda s: "t/n" in s.namespaces, "the namespace").journal_id
    shutil.rmtree(settings.tables.root)
    agents.command("unread", "mode", mode="paused")
    agents.flush()
    asyncio.run(_fence(store, 40))
    refused(settings, spark, rf"belong to journal {before}.*--new-journal")
    with Heartbeats(agents, "b1:80"):
        refused(settings, spark, r"--new-journal: one of the other journal is alive: b1:80", "--new-journal")
    capsys.readouterr()
    journal = Journal(settings)
    with Controller(settings, spark, "--new-journal"), Heartbeats(agents, "b1:80"):
        said = capsys.readouterr().err
        assert f"takes these topics over from journal {before}" in said
        assert "lost: namespace t/n, 1 bundle (commands, journal feed, store): ballast namespace create t/n" in said
        state = journal.wait(lambda s: len(s.sessions) == 1, "registration")
        assert state.journal_id not in (None, before)
        agents.command("new", "create_namespace", namespace="t/n", bundles=1)
        journal.wait(lambda s: "t/n" in s.namespaces, "the namespace made again")
        agents.assign_request("b1:80", WHOLE)
        state = journal.wait(lambda s: s.bundles[WHOLE].state is State.ASSIGNING, "the grant")
        assert state.bundles[WHOLE].epoch == 41, "above the store's fence"
        assert set(state.commands) == {"new"}, "nothing of the other journal was carried out"
    with Controller(settings, spark, "--new-journal"):  # left behind in a unit file
        assert owner_of(settings, topics)[0] == state.journal_id
    assert journal.state.mode == "live"


@pytest.mark.faults
def test_a_new_journal_is_not_begun_where_nobody_can_tell_the_epochs(
    settings: Settings, agents: Agents, spark: SparkSession
) -> None:
    settings = settings.model_copy(update={"store": Store(address="127.0.0.1:9")})
    with Controller(settings, spark):
        pass
    part = Controller(settings, spark, "--new-journal").part
    part.start(spark)  # its own topics: the option does nothing
    part.stop(clean=True)
    shutil.rmtree(settings.tables.root)
    part = Controller(settings, spark, "--new-journal").part
    with pytest.raises(ConfigError, match=r"segment store at store.address = 127.0.0.1:9 does not tell"):
        part.start(spark)
    part.stop(clean=False)
    assert Journal(settings).state.seq == 0


@pytest.mark.thorough
def test_a_journal_of_an_older_version_keeps_its_topics(
    settings: Settings, elsewhere: Settings, agents: Agents, spark: SparkSession, topics: TopicNames
) -> None:
    """It has neither id nor record; its offsets say that the topics are its own."""
    bootstrap = settings.kafka.bootstrap_servers
    identity = kafka_identity(bootstrap, {}, ensure_topics(bootstrap, live_topics(topics)), topics)
    root = TableRoot(settings.tables.root)
    root.create_all()
    read = {**identity, "topics": {topics.commands: {"0": 0}}}
    Ledger(root).commit(
        [
            Entry(1, Kind.CONTROLLER_STARTED, "older", -1, 0, data={"version": "0.1.0"}),
            Entry(2, Kind.OFFSETS, "older", -1, 0, data=read),
            Entry(3, Kind.CONTROLLER_STOPPED, "older", -1, 0),
        ],
        "older",
        -1,
    )
    agents.raw(topics.journal_feed, b'{"v":1,"instance":"older","seq":3}')
    agents.command("c1", "mode", mode="paused")
    agents.flush()
    refused(elsewhere, spark, r"a controller has used these topics.*--new-journal")
    journal = Journal(settings)
    with Controller(settings, spark):
        state = journal.wait(lambda s: "c1" in s.commands, "the waiting command")
    assert state.journal_id is not None
    assert owner_of(settings, topics) == (state.journal_id, STOPPED)
    refused(elsewhere, spark, f"belong to journal {state.journal_id}")


async def _fence(address: str, epoch: int) -> None:
    client = StoreClient(address)
    await client.start()
    await client.acquire(Bundle.parse(WHOLE), epoch, "b1:80.n1")
    await client.stop()
