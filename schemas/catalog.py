"""Every table by name. `schemas.wire` has the records on Kafka: readers of tables need not import them."""

from __future__ import annotations

from schemas import control_tables, evidence_tables, load_tables, usage_table
from schemas.journal import JOURNAL
from schemas.record import Record

TABLES: dict[str, Record] = {
    record.name: record
    for record in (
        JOURNAL,
        control_tables.OWNERSHIP,
        control_tables.BROKERS,
        control_tables.CONTROL_STATE,
        evidence_tables.ROUNDS,
        evidence_tables.DECISIONS,
        evidence_tables.BROKER_SCORES,
        load_tables.BROKER_PANES,
        load_tables.BUNDLE_PANES,
        load_tables.BROKER_LOAD,
        load_tables.BUNDLE_LOAD,
        load_tables.QUARANTINE,
        control_tables.OVERRIDES,
        control_tables.CONFIG_HISTORY,
        usage_table.USAGE_MODEL,
    )
}

# Written by the loads query alone; `usage_model` is written by the round worker, `quarantine` by both queries, and all
# other tables by the controller.
LOAD_TABLES = tuple(
    record.name
    for record in (load_tables.BROKER_PANES, load_tables.BUNDLE_PANES, load_tables.BROKER_LOAD, load_tables.BUNDLE_LOAD)
)
