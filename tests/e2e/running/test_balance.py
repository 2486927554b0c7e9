"""Load really served leads to decisions: recorded in shadow mode, carried out by hand-over in live mode."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.ledger.evidence import read_joined
from controller.policy.round import replay_round
from controller.testbed.demo.figures import transfers_of
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner, record_of
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PATIENCE_S = 180.0  # only a hang takes so long
HOT_OPERATIONS_PER_S = 130.0  # of the 200 that a broker of the fixture can do: 65 % of its CPU
BASE_PER_S = 0.5


@pytest.mark.covers("hot-broker-relieved", "rebalances-at-all")
def test_a_skewed_load_is_only_noted_in_shadow_mode_and_moved_in_live_mode(
    cluster: LocalCluster, clients: Clients, served: Callable[[int, int], list[str]]
) -> None:
    topics = served(12, 1)
    before = {topic: owner(cluster.state, topic) for topic in topics}
    hot_broker, _ = Counter(before.values()).most_common(1)[0]
    hot = [topic for topic in topics if before[topic] == hot_broker]
    clients.read("audit", "exclusive", topics)
    rates = {topic: HOT_OPERATIONS_PER_S / 2 / len(hot) if topic in hot else BASE_PER_S for topic in topics}
    first_seq = cluster.state.seq
    clients.send(rates)

    shadowed = _wait_for_decision(cluster, first_seq, executed=False)

    assert shadowed["source"] == hot_broker
    assert shadowed["outcome"] == Reason.SHADOW_MODE.value
    assert {topic: owner(cluster.state, topic) for topic in topics} == before, "shadow mode moves nothing"

    assert cluster.command("mode", mode="live").accepted
    moved = _wait_for_decision(cluster, first_seq, executed=True)
    cluster.wait_until(
        lambda _: any(e.decision_id == moved["decision_id"] for e in _begun(cluster)), 30, "the journal's transfer"
    )
    transfer = next(e for e in _begun(cluster) if e.decision_id == moved["decision_id"])
    cluster.wait_until(lambda _: _ended(cluster, transfer), 60, "the end of the transfer", needs="job")
    assert cluster.command("mode", mode="shadow").accepted

    assert moved["source"] == hot_broker
    assert moved["reason"] in (Reason.OVERLOADED.value, Reason.ABOVE_MEAN.value, Reason.UNDERLOADED.value)
    assert (moved["bundle"], moved["reason"]) == (transfer.bundle, transfer.reason)
    assert transfer.to is not None
    assert transfer.to.startswith(f"{moved['target']}#")
    assert moved["target"] != hot_broker
    assert json.loads(moved["evidence_json"])
    assert max(json.loads(moved["before_json"]).values()) > max(json.loads(moved["after_json"]).values())
    _check_round(cluster, moved, hot_broker)
    _check_clients(cluster, clients, topics, before, str(moved["bundle"]))


def _wait_for_decision(cluster: LocalCluster, after_seq: int, executed: bool) -> dict[str, Any]:
    """The first joined transfer decision of a round journaled after the seq."""
    found: list[dict[str, Any]] = []

    def decided() -> bool:
        assert cluster.children["job"].alive, cluster.children["job"].last_words()
        attempts = {e.attempt_id for e in cluster.entries if e.kind is Kind.ROUND and e.seq > after_seq}
        cluster.operator.poll() if cluster.operator else None
        rows = read_joined(cluster.settings.tables.root, "decisions").to_pylist()
        found[:] = [
            r for r in rows if r["attempt_id"] in attempts and r["kind"] == "transfer" and r["executed"] is executed
        ]
        return bool(found)

    wait_until(decided, PATIENCE_S, 0.5)
    return min(found, key=lambda row: (row["at_ms"], row["decision_id"]))


def _begun(cluster: LocalCluster) -> list[Entry]:
    return [e for e in cluster.entries if e.kind is Kind.OWNERSHIP and e.state == "transferring"]


def _ended(cluster: LocalCluster, transfer: Entry) -> bool:
    return any((e.bundle, e.epoch) == (transfer.bundle, transfer.epoch) for e in transfers_of(cluster.entries))


def _check_round(cluster: LocalCluster, decision: dict[str, Any], source: str) -> None:
    """The decision's round is a row, names its source, and gives the same plan when it is computed again."""
    root = cluster.settings.tables.root
    (row,) = [r for r in read_joined(root, "rounds").to_pylist() if r["round_id"] == decision["round_id"]]
    assert row["mode"] == "live"
    assert row["moves"] >= 1
    assert replay_round(json.loads(row["inputs_json"])) == row["plan_hash"]
    scores = [r for r in read_joined(root, "broker_scores").to_pylist() if r["round_id"] == decision["round_id"]]
    assert source in {r["broker"] for r in scores if r["is_source"]}
    (entry,) = [e for e in cluster.entries if e.kind is Kind.ROUND and e.data["round_id"] == decision["round_id"]]
    assert entry.data["plan_hash"] == row["plan_hash"]


def _check_clients(
    cluster: LocalCluster, clients: Clients, topics: list[str], before: dict[str, str | None], moved_bundle: str
) -> None:
    """Every client goes on, those of the moved bundle at its new owner, and nothing got lost on the way."""
    clients.wait_for_progress(topics, more=2)
    state = cluster.state
    moved = [topic for topic in topics if owner(state, topic) != before[topic]]
    assert moved_bundle in {str(record_of(state, topic).bundle) for topic in moved}
    gaps = clients.records("producer0").gaps
    assert {gap["topic"] for gap in gaps if gap["cause"] == "moved"} >= set(moved)
    assert all(gap["from"] != gap["to"] for gap in gaps)
    assert_nothing_lost(clients.finish())
