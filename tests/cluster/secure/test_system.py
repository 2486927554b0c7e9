"""The whole system on a Kafka as companies run it: three nodes, replication 3, TLS, SCRAM, ACLs; profile `cluster`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from kafka.errors import TopicAuthorizationFailedError

from controller.agent import records as wire
from controller.bus.acls import Grant, apply_acls, principal_of
from controller.bus.cluster import admin_client
from controller.bus.producer import JsonProducer
from controller.bus.rights import Role, rights_of
from controller.bus.topics import TopicNames, live_topics
from controller.config.table_root import table_root
from controller.domain.entries import Entry, Kind
from controller.domain.settings.agent_groups import AgentGroups
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.testbed.kafka_cluster.cluster import KafkaCluster
from controller.testbed.kafka_cluster.logins import ADMIN
from controller.testbed.local_cluster import LocalCluster
from tests.cluster.secure.conftest import EAST, WEST
from tests.e2e.checks import PATIENCE_S, check_journal, owner, record_of, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in
from tests.e2e.waiting import wait_until

BROKERS = ("broker-1", "broker-2", "broker-3")
# The profile is for several machines: here everything shares one, so ports are free ones, on loopback.
OVERRIDES = (
    "agent.bind_host=127.0.0.1", "http.bind_host=127.0.0.1", "http.job_port=0", "http.agent_port=0",
    "kafka.load_report_partitions=4", "store.fsync=false", "control.trigger_ms=400", "rounds.mode=shadow",
    "logging.json_lines=true",
)  # fmt: skip
DOWN_S = 25.0  # longer than the session timeout of Kafka, and than a lease
GROUPED = TopicNames("grouped.", AgentGroups((("east", ("broker-1",)), ("west", ("broker-2",)))))


@pytest.fixture
def site(secured: KafkaCluster, tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers, each process with the login of its role; topics made by the job's own rights."""
    names = TopicNames()
    secured.prepare(names, live_topics(names))
    with LocalCluster(tmp_path, profile="cluster", overrides=OVERRIDES, kafka=secured) as cluster:
        cluster.up(BROKERS)
        yield cluster


def serve(cluster: LocalCluster, bundles: int) -> list[str]:
    """A namespace whose bundles are all owned; a topic in each."""
    assert cluster.command("create_namespace", namespace="e2e/secure", bundles=bundles).accepted
    topics = topics_in(cluster.state, "e2e/secure", 1)
    look_up(cluster, topics)
    cluster.wait_until(lambda state: settled(state, "e2e/secure"), PATIENCE_S, "owners of all", needs="job")
    return topics


def hand_over(cluster: LocalCluster, topic: str) -> None:
    """Move the topic's bundle to the next broker, and wait until that owns it."""
    state = cluster.state
    living = sorted(broker.id for broker in state.live_brokers())
    target = living[(living.index(str(owner(state, topic))) + 1) % len(living)]
    moved = cluster.command("unload_bundle", bundle=str(record_of(state, topic).bundle), to=target)
    assert moved.accepted, moved.reason
    cluster.wait_until(lambda s: owner(s, topic) == target, PATIENCE_S, "the hand-over", needs="job")


def leader_of(kafka: KafkaCluster, topic: str) -> int:
    with admin_client(kafka.bootstrap, kafka.client(ADMIN)) as admin:
        (found,) = admin.describe_topics([topic])
    return int(found["partitions"][0]["leader_id"])


def in_sync(kafka: KafkaCluster, names: TopicNames) -> bool:
    """Whether every partition has all its replicas."""
    with admin_client(kafka.bootstrap, kafka.client(ADMIN)) as admin:
        topics = admin.describe_topics([spec.name for spec in live_topics(names)])
    return all(len(part["isr_nodes"]) == len(part["replica_nodes"]) for t in topics for part in t["partitions"])


def reporting(root: TableRoot) -> set[str]:
    """The brokers whose loads have been read."""
    return set(root.open("broker_panes").to_pyarrow_table(columns=["broker"])["broker"].to_pylist())


def entries_since(cluster: LocalCluster, seq: int, *kinds: Kind) -> list[Entry]:
    _ = cluster.state  # reads on
    return [entry for entry in cluster.entries if entry.seq > seq and entry.kind in kinds]


def test_a_node_lost_and_back_during_hand_overs_loses_nothing_and_fails_nobody_over(
    site: LocalCluster, secured: KafkaCluster
) -> None:
    topics, names = serve(site, 6), site.settings.kafka.topics
    with Clients(site, "secure") as clients:
        clients.read("audit", "exclusive", topics)
        clients.send(dict.fromkeys(topics, 10.0))
        clients.wait_for_progress(topics)
        hand_over(site, topics[0])
        before, sessions = site.state.seq, set(site.state.sessions)
        victim = leader_of(secured, names.heartbeats)
        killed_s = time.monotonic()
        secured.kill_node(victim)
        moves = 0
        for number in count(1):
            hand_over(site, topics[number % len(topics)])
            moves += 1
            if time.monotonic() - killed_s > DOWN_S:
                break
        assert leader_of(secured, names.heartbeats) != victim
        secured.start_node(victim)
        secured.wait_until_complete()
        wait_until(lambda: in_sync(secured, names), PATIENCE_S, 1.0)
        for topic in topics[:3]:
            hand_over(site, topic)
        clients.wait_for_progress(topics)
        report = clients.finish()
    print(
        f"node {victim} was away for {DOWN_S:g} s: {moves} hand-overs meanwhile, {report.messages_written} messages, "
        f"told hand-overs p99 {report.handover_gap_p99_ms} ms, longest untold gap {report.failover_gap_max_ms} ms"
    )
    assert_nothing_lost(report)
    ends = entries_since(site, before, Kind.SESSION_ENDED, Kind.GUARD)
    assert [(e.kind.value, e.session, e.reason) for e in ends] == [], "no broker was taken for dead, none gave up"
    assert set(site.state.sessions) == sessions
    check_journal(site)


@pytest.fixture
def grouped(secured: KafkaCluster, tmp_path: Path) -> Iterator[LocalCluster]:
    """Two brokers in groups with principals of their own, one in none."""
    groups = [f"kafka.agent_groups.{name}={','.join(brokers)}" for name, brokers in GROUPED.groups.members]
    overrides = (*OVERRIDES, *groups, f"kafka.topic_prefix={GROUPED.prefix}")
    with LocalCluster(tmp_path, profile="cluster", overrides=overrides, kafka=secured) as cluster:
        users = [(role.value, role, "") for role in Role]
        users += [(EAST, Role.AGENT, "east"), (WEST, Role.AGENT, "west")]
        grants = [
            Grant(principal_of(u), right) for u, role, group in users for right in rights_of(role, GROUPED, group)
        ]
        apply_acls(secured.bootstrap, grants, secured.client(ADMIN))
        cluster.start_kafka_and_store()
        cluster.start_job()
        for broker, user in zip(BROKERS, (EAST, WEST, "agent"), strict=True):
            cluster.start_agent(broker, env=secured.environment(user))
        cluster.wait_for_job()
        cluster.wait_until(
            lambda state: {b.id for b in state.live_brokers()} == set(BROKERS), PATIENCE_S, "all brokers", needs="job"
        )
        yield cluster


def test_a_stolen_agent_principal_speaks_for_its_group_alone(grouped: LocalCluster, secured: KafkaCluster) -> None:
    topics, names = serve(grouped, 3), grouped.settings.kafka.topics
    for topic in topics:
        hand_over(grouped, topic)  # between groups
    before = grouped.state.seq
    theirs = grouped.state.brokers["broker-2"].session
    goodbye = wire.event(theirs, "goodbye", 0, wall_ms())
    producer = JsonProducer(secured.bootstrap, "mallory", secured.client(EAST), idempotent=False)
    try:
        for topic in names.of_group("west"):
            refused = producer.send(topic, goodbye, key="broker-2").exception(60)
            assert isinstance(refused, TopicAuthorizationFailedError)
        assert producer.send(names.of_group("east").broker_events, goodbye, key="broker-2").exception(60) is None
    finally:
        producer.close()
    root = table_root(grouped.settings)

    def quarantined() -> list[str]:
        return list(root.open("quarantine").to_pyarrow_table(columns=["rule"])["rule"].to_pylist())

    wait_until(lambda: "group_mismatch" in quarantined(), PATIENCE_S, 0.5)
    assert theirs in grouped.state.sessions
    assert entries_since(grouped, before, Kind.SESSION_ENDED) == []
    wait_until(lambda: reporting(root) == set(BROKERS), PATIENCE_S, 0.5)

    grouped.children["broker-1"].kill()
    grouped.wait_until(
        lambda s: all(owner(s, t) in ("broker-2", "broker-3") for t in topics), PATIENCE_S, "the failover", needs="job"
    )
    ends = entries_since(grouped, before, Kind.SESSION_ENDED)
    assert [(e.broker, e.reason) for e in ends] == [("broker-1", "lease")]
    check_journal(grouped)
