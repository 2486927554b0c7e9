"""Topics, producer and reader on a real Kafka."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.bus.cluster import admin_client
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.topics import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    TopicNames,
    TopicSpec,
    delete_topics,
    ensure_topics,
    live_topics,
    replay_topics,
)
from controller.cli.run import agent_wiring
from controller.config.load import load_settings
from controller.domain.errors import ConfigError
from controller.testbed.kafka import EmbeddedKafka
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_topics_have_the_right_clock_partitions_and_retention(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    facts = ensure_topics(kafka.bootstrap, live_topics(topics))
    assert {name.removeprefix(topics.prefix): facts[name].partitions for name in facts} == {
        "load-reports": 4,
        "heartbeats": 1,
        "broker-events": 1,
        "assign-requests": 1,
        "commands": 1,
        "journal-feed": 1,
        "owner": 1,
    }
    assert {each.timestamp_type for each in facts.values()} == {LOG_APPEND_TIME}
    compacted = {name for name, each in facts.items() if each.cleanup_policy == "compact"}
    assert compacted == {topics.owner}, "its last record stays for as long as the topic does"
    assert facts == ensure_topics(kafka.bootstrap, live_topics(topics)), "asking again changes nothing"
    assert {spec.name: spec.retention_ms for spec in live_topics(topics)} == {
        name: each.retention_ms for name, each in facts.items()
    }


def test_several_processes_may_create_the_topics_at_once(kafka: EmbeddedKafka) -> None:
    names = TopicNames("race.")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: ensure_topics(kafka.bootstrap, live_topics(names)), range(4)))
    assert all(result == results[0] for result in results)
    delete_topics(kafka.bootstrap, results[0])


def test_a_topic_with_the_wrong_clock_or_partitions_is_refused(kafka: EmbeddedKafka) -> None:
    wrong = TopicNames("wrong.")
    with admin_client(kafka.bootstrap) as admin:
        admin.create_topics({wrong.heartbeats: {"num_partitions": 1}, wrong.commands: {"num_partitions": 3}})
    with pytest.raises(ConfigError, match=r"wrong\.heartbeats has message\.timestamp\.type=CreateTime.*kafka-configs"):
        ensure_topics(kafka.bootstrap, [TopicSpec(wrong.heartbeats, 1, 1000)])
    with pytest.raises(ConfigError, match=r"wrong\.commands has 3 partitions, needed is exactly 1"):
        ensure_topics(kafka.bootstrap, [TopicSpec(wrong.commands, 1, 1000, CREATE_TIME)])
    with pytest.raises(ConfigError, match=r"wrong\.heartbeats has cleanup\.policy=delete, needed is compact"):
        ensure_topics(kafka.bootstrap, [TopicSpec(wrong.heartbeats, 1, -1, CREATE_TIME, compacted=True)])


def test_kafka_stamps_live_records_and_keeps_the_stamps_of_a_replay(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    replay = TopicNames(topics.prefix + "replay.")
    facts = ensure_topics(kafka.bootstrap, replay_topics(replay))
    assert (facts[replay.load_reports].partitions, facts[replay.load_reports].retention_ms) == (1, -1)
    seen: list[KafkaRecord] = []
    reader = TopicReader(kafka.bootstrap, [topics.load_reports, replay.load_reports], seen.extend)
    reader.start()
    producer = JsonProducer(kafka.bootstrap, "test")
    long_ago_ms = 1_600_000_000_000
    before_ms = time.time_ns() // 1_000_000
    for topic in (topics.load_reports, replay.load_reports):
        producer.send(topic, {"n": 1}, timestamp_ms=long_ago_ms).result(60)
    wait_until(lambda: len(seen) == 2, 60)
    stamps = {record.topic: record.timestamp_ms for record in seen}
    assert stamps[replay.load_reports] == long_ago_ms
    assert before_ms <= stamps[topics.load_reports] <= time.time_ns() // 1_000_000
    reader.stop()
    producer.close()


def test_the_end_is_settled_when_start_returns(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    producer = JsonProducer(kafka.bootstrap, "test")
    producer.send(topics.journal_feed, {"n": "before"}).result(60)
    for number in range(5):
        seen: list[KafkaRecord] = []
        reader = TopicReader(kafka.bootstrap, [topics.journal_feed, topics.broker_events], seen.extend)
        reader.start()
        producer.send(topics.journal_feed, {"n": number}).result(60)
        wait_until(lambda seen=seen: len(seen) == 1, 60)  # type: ignore[misc]
        assert seen[0].value == f'{{"n":{number}}}'.encode()
        wait_until(
            lambda reader=reader, number=number: (
                reader.positions()
                == {  # type: ignore[misc]
                    (topics.journal_feed, 0): number + 2,
                    (topics.broker_events, 0): 0,
                }
            ),
            60,
        )
        reader.stop()
        assert not reader.alive
    producer.close()


def test_given_offsets_go_on_where_an_earlier_reader_stopped(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    producer = JsonProducer(kafka.bootstrap, "test")
    for number in range(10):
        producer.send(topics.commands, {"n": number}).result(60)
    seen: list[KafkaRecord] = []
    reader = TopicReader(kafka.bootstrap, [topics.commands], seen.extend, start={(topics.commands, 0): 7})
    reader.start()
    wait_until(lambda: len(seen) == 3, 60)
    assert [record.offset for record in seen] == [7, 8, 9]
    reader.stop()
    producer.close()


def test_an_offset_that_is_gone_is_counted_as_a_gap(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    producer = JsonProducer(kafka.bootstrap, "test")
    producer.send(topics.commands, {"n": 0}).result(60)
    seen: list[KafkaRecord] = []
    reader = TopicReader(kafka.bootstrap, [topics.commands], seen.extend, start={(topics.commands, 0): 500})
    reader.start()
    wait_until(lambda: len(seen) == 1, 60)
    assert (reader.gaps, seen[0].offset) == (1, 0)
    reader.stop()
    producer.close()


def test_a_failing_callback_ends_the_reader_loudly(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    def fail(batch: list[KafkaRecord]) -> None:
        raise RuntimeError(f"cannot take {batch[0].value!r}")

    failures: list[Exception] = []
    reader = TopicReader(kafka.bootstrap, [topics.commands], fail, on_failure=failures.append)
    reader.start()
    producer = JsonProducer(kafka.bootstrap, "test")
    producer.send(topics.commands, {"n": 0}).result(60)
    wait_until(lambda: not reader.alive, 60)
    assert failures == [reader.failure]
    assert str(reader.failure) == "cannot take b'{\"n\":0}'"
    assert reader.positions() == {(topics.commands, 0): 0}, "the record counts as not handed over"
    producer.close()


def test_contact_is_renewed_on_quiet_topics(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    reader = TopicReader(kafka.bootstrap, [topics.journal_feed], lambda batch: None)
    reader.start()
    first = reader.last_contact_ms
    wait_until(lambda: reader.last_contact_ms > first, 60)
    assert reader.behind() == 0
    reader.stop()


def test_a_topic_that_does_not_exist_is_refused(kafka: EmbeddedKafka) -> None:
    with pytest.raises(ConfigError, match=r"topic nowhere does not exist"):
        TopicReader(kafka.bootstrap, ["nowhere"], lambda batch: None).start()


def test_an_agent_waits_until_the_controller_has_created_the_topics(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    set_to = [f"kafka.bootstrap_servers={kafka.bootstrap}", "kafka.topic_prefix=late."]
    settings = load_settings(None, "local", set_to, env={})
    specs = live_topics(settings.kafka.topics)

    def create(text: str, **more: object) -> None:
        said.append(f"{text}: {more['reason']}")
        ensure_topics(kafka.bootstrap, specs)

    monkeypatch.setattr(agent_wiring.log, "warning", create)
    asyncio.run(agent_wiring.wait_for_topics(settings, "b1"))
    assert [line.split(" does not exist", 1)[0] for line in said] == [
        "waiting for the topics: topic late.broker-events, late.heartbeats, late.journal-feed, late.load-reports"
    ]
    delete_topics(kafka.bootstrap, [spec.name for spec in specs])


def test_values_that_are_no_json_are_refused_and_bytes_go_as_they_are(kafka: EmbeddedKafka, topics: TopicNames) -> None:
    producer = JsonProducer(kafka.bootstrap, "test")
    with pytest.raises(ValueError, match="Out of range float"):
        producer.send(topics.commands, {"n": float("nan")})
    seen: list[KafkaRecord] = []
    reader = TopicReader(kafka.bootstrap, [topics.commands], seen.extend)
    reader.start()
    big = b"\xff" * (3 * 1024 * 1024)
    producer.send_bytes(topics.commands, big).result(60)
    wait_until(lambda: len(seen) == 1, 60)
    assert seen[0].value == big, "larger than Kafka's default of 1 MB"
    reader.stop()
    producer.close()
