"""What every end-to-end test asks of the journal when it is done: I2, I3, I4 and every command answered once."""

from __future__ import annotations

from controller.config.table_root import table_root
from controller.domain.entries import Entry
from controller.domain.ids import topic_hash
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.ring import locate
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import broker_rows, ownership_rows
from controller.sim.ownership.invariants import check_fold
from controller.testbed.checker.journal import check_entries
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.waiting import wait_until

PATIENCE_S = 180.0  # only a hang takes so long


def check_journal(cluster: LocalCluster) -> list[Entry]:
    """Fold the journal from nothing, commit by commit; returns its entries."""
    newest = cluster.state
    entries = [e for e in Journal(table_root(cluster.settings)).read_since(0) if e.seq <= newest.seq]
    check_entries(entries)
    check_fold(ClusterState(), entries, newest)
    return entries


def check_projections(cluster: LocalCluster) -> None:
    """The tables `ownership` and `brokers` become what the journal says (they follow it within a moment)."""
    root = table_root(cluster.settings)

    def equal() -> bool:
        state = cluster.state
        found = {name: root.open(name).to_pyarrow_table().drop_columns("seq") for name in ("ownership", "brokers")}
        owned = found["ownership"].sort_by("bundle").to_pylist()
        brokers = found["brokers"].sort_by("broker").to_pylist()
        return [owned, brokers] == [ownership_rows(state), broker_rows(state)]

    wait_until(equal, PATIENCE_S, 0.5)


def settled(state: ClusterState, namespace: str) -> bool:
    """Whether all bundles of the namespace are owned by living brokers."""
    records = [state.bundles[str(b)] for b in state.namespaces.get(namespace, ())]
    return bool(records) and all(r.state is State.OWNED and state.alive(r.by) for r in records)


def in_flight(state: ClusterState) -> list[Ownership]:
    """Bundles between two owners."""
    return [r for r in state.bundles.values() if r.state in IN_FLIGHT]


def record_of(state: ClusterState, topic: str) -> Ownership:
    """What the journal says of the bundle that holds the topic."""
    namespace = "/".join(topic.split("/")[2:4])
    return state.bundles[str(locate(state.namespaces[namespace], topic_hash(topic)))]


def owner(state: ClusterState, topic: str) -> str | None:
    """The broker that owns the topic, or None while nobody does for sure."""
    record = record_of(state, topic)
    return record.by.broker if record.state is State.OWNED and record.by else None
