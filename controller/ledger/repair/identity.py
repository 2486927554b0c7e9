"""Which journal the tables hold, whatever of them is damaged: what Kafka knows of another one does not count."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controller.domain.entries import Entry, Kind
from controller.ledger.damage import find_data_fault
from controller.ledger.delta_log import DeltaLog
from controller.ledger.repair.base import read_bases
from controller.ledger.tables import TableRoot
from schemas.control_tables import CONTROL_STATE
from schemas.journal import JOURNAL


def find_journal_id(root: TableRoot) -> str | None:
    """The journal's id, of the newest snapshot or the newest start that can be read; None if neither can.

    Raises DeltaError or OSError when the store does not answer.
    """
    if root.exists(CONTROL_STATE.name):
        log = root.log(CONTROL_STATE.name)
        bases = read_bases(log, log.list_data_files())
        if bases and bases[-1].state.journal_id:
            return bases[-1].state.journal_id
    if not root.exists(JOURNAL.name):
        return None
    log = root.log(JOURNAL.name)
    starts = [entry for path in log.list_data_files() for entry in _starts_in(log, path)]
    newest = max(starts, key=lambda entry: entry.seq, default=None)
    return str(newest.data["journal_id"]) if newest else None


def _starts_in(log: DeltaLog, path: str) -> list[Entry]:
    content = log.read_file(path)
    if find_data_fault(content):
        return []
    rows = pq.read_table(pa.BufferReader(content))
    found = rows.filter(pc.equal(rows["kind"], Kind.CONTROLLER_STARTED.value)).to_pylist()
    return [entry for entry in map(Entry.from_row, found) if entry.data.get("journal_id")]
