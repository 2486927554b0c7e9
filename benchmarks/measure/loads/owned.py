"""Writes tables in which a fleet owns all its bundles, as a controller leaves them that has granted them and stopped.

To have a controller grant a million, 500 a batch, would take longer than what is to be measured. Instead they are in a
base snapshot. The journal has only the entry that it ends with: those below all snapshots are cleaned up in any one.
"""

from __future__ import annotations

from typing import Any

from benchmarks.measure.loads.fleet import INFO, Fleet
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.ownership import Ownership, State
from controller.domain.state import ClusterState
from controller.domain.state_codec import collector_paused
from controller.ledger.append import append
from controller.ledger.snapshots import Snapshots
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from schemas.arrow import arrow_table
from schemas.journal import JOURNAL

INSTANCE = "bench"


def write_owned(root: TableRoot, fleet: Fleet) -> None:
    """Fill tables whose journal is empty."""
    state, now_ms = ClusterState(), wall_ms()

    def add(kind: Kind, **fields: Any) -> Entry:
        entry = Entry(state.seq + 1, kind, INSTANCE, 0, now_ms, **fields)
        apply_in_place(state, entry)
        return entry

    with collector_paused():
        add(Kind.CONTROLLER_STARTED)
        for broker in fleet.brokers.values():
            add(Kind.REGISTERED, session=str(broker.session), data={"info": INFO})
            names = [str(bundle) for bundle in broker.bundles]
            add(Kind.NAMESPACE_CREATED, data={"namespace": broker.bundles[0].namespace, "bundles": names})
            for bundle in broker.bundles:
                state.put(Ownership(bundle, State.OWNED, 1, by=broker.session, seq=state.seq, ever_owned=True))
        last = add(Kind.CONTROLLER_STOPPED)
        Snapshots(root).save(state, now_ms)
    append(root, JOURNAL.name, arrow_table(JOURNAL, [last.to_row()]), INSTANCE, 0)
