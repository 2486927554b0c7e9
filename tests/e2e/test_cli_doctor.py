"""`ballast doctor` asks a real Kafka: its topics, who speaks there, and how far the journal is behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.bus.producer import JsonProducer
from controller.bus.topics import HOUR_MS, TopicNames, delete_topics, ensure_topics, live_topics
from controller.testbed.kafka import EmbeddedKafka
from tests.e2e.test_cli_commands import Site

pytestmark = pytest.mark.kafka


def asked(site: Site) -> dict[str, list[dict[str, Any]]]:
    """The findings by check."""
    _, out, err = site.ballast("doctor", "--json")
    assert err == ""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(out)["findings"]:
        found.setdefault(row["check"], []).append(row)
    return found


def severities(rows: list[dict[str, Any]]) -> list[str]:
    return [row["severity"] for row in rows]


def speak(site: Site, kafka: EmbeddedKafka, topics: TopicNames, *brokers: str) -> None:
    """A word of the controller on the feed, and a heartbeat of these brokers."""
    state = site.run.state
    producer = JsonProducer(kafka.bootstrap, "test-speaker", {})
    engine = {"spark": "4.0.0", "master": "local[2]", "executors": 0, "cores": 2}
    producer.send(topics.journal_feed, {"v": 1, "instance": state.instance, "seq": state.seq, "engine": engine})
    for broker in brokers:
        session = state.brokers[broker].session
        record = {"v": 1, "broker": broker, "incarnation": session.incarnation, "nonce": session.nonce,
                  "session": session.number, "applied_seq": state.seq, "info": {}}  # fmt: skip
        producer.send(topics.heartbeats, record, key=broker)
    producer.flush()
    producer.close()


def test_doctor_hears_who_speaks_and_who_does_not(kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> None:
    site = Site(kafka, topics, tmp_path / "tables")
    found = asked(site)
    assert severities(found["kafka"]) == severities(found["topics"]) == severities(found["lag"]) == ["ok"]
    assert "severe" in severities(found["controller"]), "nobody ever spoke on the feed"
    assert any("b1:8080, b2:8080" in row["text"] for row in found["agents"])
    speak(site, kafka, topics, "b1:8080")
    found = asked(site)
    assert severities(found["controller"]) == ["ok", "ok"]
    assert found["spark"][0]["text"].startswith("Spark 4.0.0 at local[2]")
    (silent,) = [row for row in found["agents"] if row["severity"] == "warning"]
    assert silent["text"].endswith(": b2:8080")


def test_doctor_finds_topics_that_are_missing_or_forget_too_soon(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    names = TopicNames(f"doctor{tmp_path.name[-4:]}.".replace("_", "-"))
    specs = [
        replace(spec, retention_ms=HOUR_MS) if spec.name == names.commands else spec for spec in live_topics(names)
    ]
    ensure_topics(kafka.bootstrap, [spec for spec in specs if spec.name != names.owner])
    site = Site(kafka, names, tmp_path / "tables")
    rows = {row["severity"]: row for row in asked(site)["topics"]}
    assert rows["severe"]["text"] == f"there is no topic {names.owner}"
    assert rows["warning"]["text"] == f"topic {names.commands} keeps records for 1h 00m, meant is 7d 0h"
    assert f"--entity-name {names.commands}" in rows["warning"]["remedy"]
    delete_topics(kafka.bootstrap, [spec.name for spec in specs])


def test_doctor_sees_commands_that_nobody_reads(kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> None:
    site = Site(kafka, topics, tmp_path / "tables")
    site.run.state.offsets[topics.commands] = {"0": 0}
    site.run.project()  # the base snapshot has these offsets
    producer = JsonProducer(kafka.bootstrap, "test-commands", {})
    for number in range(1_001):
        producer.send(topics.commands, {"v": 1, "number": number})
    producer.flush()
    producer.close()
    (lag,) = asked(site)["lag"]
    assert (lag["severity"], f"1001 in {topics.commands}" in lag["text"]) == ("warning", True)
