"""What operators move: hand-over and split under unacknowledged backlog, unloading a topic, drain and undrain."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from controller.domain.entries import Kind
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner, record_of, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PATIENCE_S = 180.0  # only a hang takes so long
BACKLOG = 60  # messages held unacknowledged while the bundle moves


@pytest.mark.covers(
    "unit-of-move", "keeps-subscriptions", "bundle-unload", "unload-before-overload", "split-half-moves"
)
def test_order_and_subscriptions_survive_a_transfer_and_a_split_under_backlog(
    cluster: LocalCluster, clients: Clients, served: Callable[[int, int], list[str]]
) -> None:
    topics = served(1, 4)
    clients.read("audit", "exclusive", topics)
    clients.read("work1", "shared", topics, subscription="work")
    clients.read("work2", "shared", topics, subscription="work")
    clients.read("pair1", "failover", topics, subscription="pair")
    clients.read("pair2", "failover", topics, subscription="pair")
    slow = clients.read("slow", "exclusive", topics)
    clients.send(dict.fromkeys(topics, 8.0))
    clients.wait_for_progress(topics)
    slow.tell(json.dumps({"ack": False}))
    held_from = clients.delivered("slow")
    wait_until(lambda: clients.delivered("slow") > held_from + BACKLOG, PATIENCE_S, 0.3)

    parent = record_of(cluster.state, topics[0])
    target = next(b.id for b in cluster.state.live_brokers() if b.id != owner(cluster.state, topics[0]))
    assert cluster.command("unload_bundle", bundle=str(parent.bundle), to=target).accepted
    cluster.wait_until(lambda state: owner(state, topics[0]) == target, PATIENCE_S, "the transfer", needs="job")
    clients.wait_for_progress(topics)

    assert cluster.command("split_bundle", bundle=str(parent.bundle), unload=True).accepted
    namespace = parent.bundle.namespace
    state = cluster.wait_until(
        lambda s: len(s.namespaces[namespace]) == 2 and settled(s, namespace) and _apart(s, namespace),
        PATIENCE_S,
        "the split with one half sent on",
        needs="job",
    )
    clients.wait_for_progress(topics)
    slow.tell(json.dumps({"ack": True}))
    report = clients.finish()

    assert state.bundles[str(parent.bundle)].state is State.RETIRED
    assert all(state.bundles[str(child)].epoch > parent.epoch + 1 for child in state.namespaces[namespace])
    assert_nothing_lost(report)
    assert report.redelivered >= BACKLOG, "what was not acknowledged came again from the new owner"
    assert report.handovers >= len(topics), "producers saw the transfer as a move"
    assert report.messages_read >= 4 * report.messages_written, "four subscriptions have read everything"


@pytest.mark.covers("topic-unload")
def test_unloading_a_topic_reopens_it_and_keeps_owner_and_epoch(
    cluster: LocalCluster, clients: Clients, served: Callable[[int, int], list[str]]
) -> None:
    topics = served(1, 2)
    clients.read("audit", "exclusive", topics)
    clients.send(dict.fromkeys(topics, 10.0))
    clients.wait_for_progress(topics)
    before = record_of(cluster.state, topics[0])

    outcome = cluster.command("unload_topic", topic=topics[0])
    assert outcome.accepted
    clients.wait_for_progress(topics)

    after = record_of(cluster.state, topics[0])
    assert (after.state, after.by, after.epoch) == (State.OWNED, before.by, before.epoch)
    (entry,) = [e for e in cluster.entries if e.kind is Kind.TOPIC_UNLOAD and e.command_id == outcome.command_id]
    assert (entry.bundle, entry.data["topic"]) == (str(before.bundle), topics[0])
    assert_nothing_lost(clients.finish())
    ended = {s["name"].split("-")[-1]: s for s in clients.records().summaries}
    assert ended["audit"]["reopened"] == 1, "the topic's reader was sent away once, the other one's was not"
    assert ended["producer0"]["reopened"] == 1


@pytest.mark.covers("broker-leaves")
def test_a_drained_broker_is_emptied_and_gets_nothing_until_it_is_undrained(
    cluster: LocalCluster, served: Callable[[int, int], list[str]]
) -> None:
    topics = served(6, 1)
    broker = owner(cluster.state, topics[0])
    assert broker is not None
    assert cluster.command("drain", broker=broker).accepted
    cluster.wait_until(lambda s: not _owned_by(s, broker), PATIENCE_S, f"{broker} to be empty", needs="job")
    moves = [e for e in cluster.entries if e.state == "transferring" and _broker(e.by) == broker]
    assert moves[-1].reason == "107_drained"
    refused = cluster.command("unload_bundle", bundle=str(record_of(cluster.state, topics[0]).bundle), to=broker)
    assert (refused.accepted, broker in refused.reason, "drained" in refused.reason) == (False, True, True)
    more = served(4, 1)
    assert broker not in {owner(cluster.state, topic) for topic in more}

    assert cluster.command("undrain", broker=broker).accepted
    assert cluster.command("unload_bundle", bundle=str(record_of(cluster.state, topics[0]).bundle), to=broker).accepted
    cluster.wait_until(lambda s: owner(s, topics[0]) == broker, PATIENCE_S, "a bundle to come back", needs="job")


def _apart(state: ClusterState, namespace: str) -> bool:
    """Whether every bundle of the namespace is at another broker."""
    bundles = state.namespaces[namespace]
    return len({state.bundles[str(b)].by for b in bundles}) == len(bundles)


def _owned_by(state: ClusterState, broker: str) -> list[str]:
    return [name for name, record in state.bundles.items() if record.by is not None and record.by.broker == broker]


def _broker(session: str | None) -> str:
    return (session or "").rpartition("#")[0]
