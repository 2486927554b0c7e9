"""The owner's record on a real Kafka: claimed by the first of several, whoever dies in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from controller.bus.cluster import KafkaUnavailable
from controller.bus.producer import JsonProducer
from controller.bus.topic_owner import KEY, RUNNING, OwnerTopic, TopicOwner
from controller.bus.topics import TopicNames
from controller.cli.main import main
from controller.config.load import load_settings
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController, ForeignCommit
from controller.domain.events import parse_command
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.commands import ForeignTopics, send_and_wait
from controller.operations.operator import NoAnswer, Operator
from controller.service.topic_claim import TopicClaim
from controller.testbed.kafka import EmbeddedKafka

pytestmark = pytest.mark.kafka

RIVALS = 4
Make = Callable[[str], TopicClaim]


@pytest.fixture
def make(kafka: EmbeddedKafka, topics: TopicNames) -> Make:
    """A claimant with tables of its own."""
    return lambda name: TopicClaim(kafka.bootstrap, topics.owner, {}, name, f"/{name}/tables")


def state_of(name: str) -> ClusterState:
    return ClusterState(seq=3, instance=name, journal_id=f"journal-of-{name}")


def test_of_several_that_have_read_the_same_topic_the_first_is_named(
    make: Make, kafka: EmbeddedKafka, topics: TopicNames
) -> None:
    claimants, gate = {f"rival-{n}": make(f"rival-{n}") for n in range(RIVALS)}, threading.Barrier(RIVALS)

    def claim(name: str) -> str | None:
        assert claimants[name].look().owner is None
        gate.wait(60)
        try:
            claimants[name].claim(state_of(name))
        except AnotherController as error:
            return str(error)
        return None

    with ThreadPoolExecutor(RIVALS) as pool:
        said = dict(zip(claimants, pool.map(claim, claimants), strict=True))
    (winner,) = [name for name, error in said.items() if error is None]
    for name, error in said.items():
        assert error is None or (f"/{winner}/tables" in error and f"/{name}/tables" in error)
    seen = make("looker").look()
    assert seen.owner is not None
    assert seen.owner.journal_id == f"journal-of-{winner}"
    assert seen.settled, "the last record is the winner's: compaction keeps that one"
    assert _first(kafka, topics).endswith(winner)


def test_a_loser_that_dies_before_it_gives_the_record_back_has_still_lost(
    make: Make, kafka: EmbeddedKafka, topics: TopicNames
) -> None:
    winner = make("winner")
    end = winner.look().end
    winner.claim(state_of("winner"))
    dead = TopicOwner("journal-of-dead", "dead", "/dead/tables", RUNNING, seq=1)
    OwnerTopic(kafka.bootstrap, topics.owner)._append(JsonProducer(kafka.bootstrap, "dead"), dead, end)
    seen = make("looker").look()
    assert seen.owner is not None
    assert (seen.owner.journal_id, seen.settled) == ("journal-of-winner", False)
    winner.check()  # raises nothing
    winner.stop(9)
    again = make("looker").look()
    assert again.owner is not None
    assert (again.owner.state, again.owner.seq, again.settled) == ("stopped", 9, True)


def test_who_was_given_the_topics_by_an_operator_ends_the_other(make: Make) -> None:
    first, second = make("first"), make("second")
    first.look()
    first.claim(state_of("first"))
    replaced = second.look().owner
    with pytest.raises(AnotherController, match="/first/tables"):
        second.claim(state_of("second"))
    first.check()
    second.look()
    second.claim(state_of("second"), replaced)
    with pytest.raises(ForeignCommit, match="/second/tables"):
        first.check()
    first.stop(9)
    owner = first.look().owner
    assert owner is not None
    assert (owner.instance, owner.state) == ("second", RUNNING), "one that was replaced has nothing to say"


def test_a_later_instance_of_the_same_journal_is_named_without_more_ado(make: Make) -> None:
    first, second = make("first"), make("second")
    first.look()
    first.claim(state_of("first"))
    second.look()
    second.claim(ClusterState(seq=8, journal_id="journal-of-first"))
    first.check()
    first.stop(9)
    owner = second.look().owner
    assert owner is not None
    assert (owner.instance, owner.state) == ("second", RUNNING), "the older instance's goodbye says nothing of it"


def _first(kafka: EmbeddedKafka, topics: TopicNames) -> str:
    """The instance of the topic's first record."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id=None)
    partition = TopicPartition(topics.owner, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records = consumer.poll(timeout_ms=20_000)[partition]
    consumer.close()
    assert {record.key for record in records} == {KEY.encode()}
    return str(records[0].value.decode().split('"instance":"')[1].split('"')[0])


def test_a_command_from_the_folder_of_another_journal_is_not_sent(
    kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path
) -> None:
    root = TableRoot(str(tmp_path / "tables"))
    root.create_all()
    Journal(root).commit([Entry(1, Kind.CONTROLLER_STARTED, "c", 0, 0, data={"journal_id": "journal-of-me"})], "c", 0)
    topic = OwnerTopic(kafka.bootstrap, topics.owner)
    topic.write(
        TopicOwner("journal-of-other", "other", "/other/tables", RUNNING, 1), topic.read(), lambda seen: seen is None
    )
    settings = load_settings(
        None,
        overrides=[
            f"kafka.bootstrap_servers={kafka.bootstrap}",
            f"kafka.topic_prefix={topics.prefix}",
            f"tables.root={root.root}",
        ],
        env={},
    )
    with pytest.raises(ForeignTopics) as caught:
        send_and_wait(settings, "mode", "", 1.0, {"mode": "paused"})
    assert "journal journal-of-other (tables /other/tables;" in str(caught.value)
    assert f"the tables at {root.root} are journal journal-of-me" in str(caught.value)
    empty = TableRoot(str(tmp_path / "empty"))
    empty.create_all()
    tables = settings.tables.model_copy(update={"root": empty.root})
    with pytest.raises(ForeignTopics, match="hold no journal"):
        send_and_wait(settings.model_copy(update={"tables": tables}), "mode", "", 1.0, {"mode": "paused"})
    partition = TopicPartition(topics.commands, 0)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap)
    assert consumer.end_offsets([partition])[partition] == 0
    mine = TopicOwner("journal-of-me", "me", root.root, RUNNING, 1)
    topic.write(mine, topic.read(), lambda seen: seen != mine)
    with pytest.raises(NoAnswer):  # it was sent; nobody is there to answer
        send_and_wait(settings, "mode", "", 0.3, {"mode": "paused"})
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    (record,) = next(iter(consumer.poll(timeout_ms=5_000).values()))
    consumer.close()
    assert parse_command(record.value).journal_id == "journal-of-me"


def test_a_command_that_kafka_does_not_take_is_not_said_to_stay_there(
    kafka: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.operations.operator.JsonProducer", partial(JsonProducer, max_block_ms=500))
    root = TableRoot(str(tmp_path / "tables"))
    root.create_all()
    sets = [f"kafka.bootstrap_servers={kafka.bootstrap}", "kafka.topic_prefix=none.", f"tables.root={root.root}"]
    operator = Operator(load_settings(None, overrides=sets, env={}))
    with operator, pytest.raises(KafkaUnavailable, match=r"did not confirm .* topic none\.commands"):
        operator.send("mode", {"mode": "paused"})


def test_a_stray_run_is_refused_before_its_jvm(
    make: Make,
    kafka: EmbeddedKafka,
    topics: TopicNames,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr("os.execve", lambda path, *given: begun.append(path))
    values = {
        "kafka.bootstrap_servers": kafka.bootstrap,
        "kafka.topic_prefix": topics.prefix,
        "tables.root": str(tmp_path / "t"),
        "tables.checkpoints": str(tmp_path / "c"),
        "http.job_port": "0",
    }

    def run(*more: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main(["run", *more, *(word for pair in values.items() for word in ("--set", "=".join(pair)))])
        return ended.value.code

    assert run() == 0  # no journal has claimed these topics
    assert len(begun) == 1
    claimant = make("one")
    claimant.look()
    claimant.claim(state_of("one"))
    capfd.readouterr()
    assert run() == 3
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("ballast: these topics belong to journal journal-of-one (tables /one/tables;")
    assert f"the tables of this start, {tmp_path}/t, hold no journal of these topics" in line
    assert len(begun) == 1
    assert run("--new-journal") == run("--only", "loads") == 0  # the job itself decides
    assert len(begun) == 3
