"""A thousand malformed and hostile records among good ones, on every topic that Ballast reads."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry, Kind
from controller.ledger.evidence import read_joined
from controller.ledger.tables import TableRoot
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner, record_of
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.hostile import (
    Hostile,
    hostile_assign_requests,
    hostile_commands,
    hostile_events,
    hostile_heartbeats,
    hostile_reports,
)
from tests.e2e.running.conftest import BROKERS
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(900)]

NAMES = TopicNames()
PATIENCE_S = 180.0  # only a hang takes so long
ROUNDS_OF_AN_AVERAGE = 5


def test_all_of_them_are_quarantined_by_rule_and_decide_nothing(
    cluster: LocalCluster, clients: Clients, served: Callable[[int, int], list[str]]
) -> None:
    topics = _spread_evenly(cluster, served(6, 1))
    clients.read("audit", "exclusive", topics)
    clients.send(dict.fromkeys(topics, 3.0))
    clients.wait_for_progress(topics)
    real = _a_real_report(cluster)
    # an earlier test's skew may still lie in the rolling average, and the load of this one not yet
    seen = len(_rounds(cluster))
    wait_until(lambda: len(_rounds(cluster)) >= seen + ROUNDS_OF_AN_AVERAGE, PATIENCE_S, 0.5)
    cluster.wait_until(lambda _: _sources(cluster) == set(), PATIENCE_S, "an even load")
    before = cluster.state
    rounds_before = _rounds(cluster)

    sent = _send(cluster, _thousand(cluster, real, topics[0]))
    rows = _wait_for_quarantine(cluster, set(sent))

    assert {place: rows[place]["rule"] for place in sent} == sent
    assert len(sent) == 1000
    assert all(row["text"] for row in rows.values())
    assert {row["source"] for row in rows.values()} == {"loads", "control"}
    wait_until(lambda: len(_rounds(cluster)) >= len(rounds_before) + 3, PATIENCE_S, 0.5)
    clients.wait_for_progress(topics)
    after = cluster.state
    assert (after.bundles, after.sessions, after.commands) == (before.bundles, before.sessions, before.commands)
    assert _sources(cluster) == set(), "no round has believed any of them"
    assert all(not r.data["counts"].keys() - {"skip"} for r in _rounds(cluster)[len(rounds_before) :])
    assert _hottest(cluster, real["broker"]) < 0.5, "the hostile reports said 0.99 of the CPU"
    assert_nothing_lost(clients.finish())


def _spread_evenly(cluster: LocalCluster, topics: list[str]) -> list[str]:
    """As many of the topics on each broker: their own load makes none of them a source."""
    wanted = dict(zip(topics, itertools.cycle(BROKERS), strict=False))
    for topic, broker in wanted.items():
        if owner(cluster.state, topic) != broker:
            bundle = str(record_of(cluster.state, topic).bundle)
            assert cluster.command("unload_bundle", bundle=bundle, to=broker).accepted
    cluster.wait_until(
        lambda state: all(owner(state, t) == b for t, b in wanted.items()), PATIENCE_S, "the spread", needs="job"
    )
    return topics


def _thousand(cluster: LocalCluster, real: dict[str, Any], topic: str) -> dict[str, list[Hostile]]:
    record = record_of(cluster.state, topic)
    other = next(b.session for b in cluster.state.live_brokers() if b.session != record.by)
    session = dict(zip(("broker", "incarnation", "nonce", "session"), other, strict=True))
    bundle = str(record.bundle)
    return {
        NAMES.load_reports: hostile_reports(real, 600),
        NAMES.heartbeats: hostile_heartbeats(100),
        NAMES.broker_events: hostile_events(session, bundle, 100),
        NAMES.assign_requests: hostile_assign_requests(bundle, 100),
        NAMES.commands: hostile_commands(bundle, 100),
    }


def _send(cluster: LocalCluster, records: Mapping[str, list[Hostile]]) -> dict[tuple[str, int, int], str]:
    """Where each record lies in Kafka, and its rule."""
    producer = JsonProducer(cluster.kafka.bootstrap, "mallory")
    futures = [
        (topic, record.rule, producer.send_bytes(topic, record.value, record.key))
        for topic, hostile in records.items()
        for record in hostile
    ]
    producer.flush()
    producer.close()
    return {(topic, *future.result(30)): rule for topic, rule, future in futures}


def _wait_for_quarantine(
    cluster: LocalCluster, places: set[tuple[str, int, int]]
) -> dict[tuple[str, int, int], dict[str, Any]]:
    rows: dict[tuple[str, int, int], dict[str, Any]] = {}

    def complete() -> bool:
        assert cluster.children["job"].alive, cluster.children["job"].last_words()
        table = TableRoot(cluster.settings.tables.root).open("quarantine").to_pyarrow_table()
        found = [(row["topic"], row["partition"], row["kafka_offset"]) for row in table.to_pylist()]
        assert len(found) == len(set(found)), "no record is quarantined twice"
        rows.update(zip(found, table.to_pylist(), strict=True))
        return places <= rows.keys()

    wait_until(complete, PATIENCE_S, 0.5)
    assert rows.keys() == places, "nothing else is in quarantine"
    return rows


def _a_real_report(cluster: LocalCluster) -> dict[str, Any]:
    """A report with two bundles or more, as an agent sent it."""
    found: list[dict[str, Any]] = []

    def take(batch: list[KafkaRecord]) -> None:
        found.extend(r for r in (json.loads(record.value) for record in batch) if len(r["bundles"]) >= 2)

    reader = TopicReader(cluster.kafka.bootstrap, [NAMES.load_reports], take)
    reader.start()
    wait_until(lambda: bool(found), PATIENCE_S)
    reader.stop()
    return found[0]


def _rounds(cluster: LocalCluster) -> list[Entry]:
    assert cluster.state
    return [e for e in cluster.entries if e.kind is Kind.ROUND]


def _sources(cluster: LocalCluster) -> set[str]:
    """Sources of the newest three rounds."""
    rows = read_joined(cluster.settings.tables.root, "broker_scores").to_pylist()
    newest = sorted({row["at_ms"] for row in rows})[-3:]
    return {row["broker"] for row in rows if row["is_source"] and row["at_ms"] in newest}


def _hottest(cluster: LocalCluster, broker: str) -> float:
    """The largest score of the broker in the newest five rounds."""
    rows = read_joined(cluster.settings.tables.root, "broker_scores").to_pylist()
    newest = [row["at_ms"] for row in sorted(rows, key=lambda row: row["at_ms"])][-15:]
    scores = Counter({row["at_ms"]: row["score"] or 0.0 for row in rows if row["broker"] == broker})
    return max(scores[at_ms] for at_ms in newest)
