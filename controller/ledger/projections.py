"""The projections `ownership`, `brokers` and `overrides`: folds of the journal as tables, for operators (invariant I4).

A projection states the seq it includes, is overwritten as a whole by compare-and-set, never goes back to an older seq,
and can be rebuilt from the journal at any time. A table whose content is unchanged is not written again: its seq then
stays that of its last change, although its content is the fold up to the newest entry.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from controller.domain.errors import ForeignCommit
from controller.domain.observed import ObservedCluster
from controller.domain.overrides import Override
from controller.domain.ownership import Ownership
from controller.domain.state import METADATA, Broker, ClusterState
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.store.room import writing
from controller.ledger.tables import REOPEN_AFTER_VERSIONS, TableRoot, as_root, for_table
from controller.process import failpoints
from schemas.arrow import arrow_table, fill_columns
from schemas.control_tables import BROKERS, OVERRIDES, OWNERSHIP
from schemas.record import Record

log = logging.getLogger(__name__)

WRITE_ATTEMPTS = 5
ROWS_AT_ONCE = 50_000
Row = dict[str, Any]


class Projections:
    """Writes all projections of a controller. Not thread-safe."""

    def __init__(self, root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        tables = as_root(root, storage_options)
        self._ownership = _Projection(tables, OWNERSHIP, _OwnershipTable().of)
        self._brokers = _Projection(tables, BROKERS, lambda state: _as_table(BROKERS, broker_rows(state)))
        self._overrides = _Projection(tables, OVERRIDES, lambda state: _as_table(OVERRIDES, override_rows(state)))

    def write(self, state: ClusterState) -> list[str]:
        """Write this state, which must be journaled already, to the tables; returns the names of those written.

        Raises ForeignCommit when a table has a higher seq: another controller has journaled, and this state is old.
        """
        written = [self._ownership.record.name] if self._ownership.write(state) else []
        failpoints.reach("projection.write")
        return written + [p.record.name for p in (self._brokers, self._overrides) if p.write(state)]


class _Projection:
    def __init__(self, root: TableRoot, record: Record, content_of: Callable[[ClusterState], pa.Table]) -> None:
        self.record = record
        self._root = root
        self._log = root.log(record.name)
        self._content_of = content_of
        self._table: DeltaTable | None = None
        self._opened_at = 0
        self._seq = 0  # as the table says
        self._content = _as_table(record, [])  # as the table says

    def write(self, state: ClusterState) -> bool:
        for _ in range(WRITE_ATTEMPTS):
            table = self._open()
            if self._seq > state.seq:
                raise ForeignCommit(
                    f"table {self.record.name} includes journal seq {self._seq}, this controller holds {state.seq}: "
                    "another one has gone on, this one must stop"
                )
            content = self._content_of(state)
            if content.columns == self._content.columns:
                return False
            try:
                self._overwrite(table, content, state)
            except CommitFailedError:
                continue  # another writer or a compaction was quicker: look again
            self._seq, self._content = state.seq, content
            return True
        log.warning("projection %s not written at seq %d: it kept changing", self.record.name, state.seq)
        return False

    def _overwrite(self, table: DeltaTable, content: pa.Table, state: ClusterState) -> None:
        try:
            with writing(self._root.uri(self.record.name)):
                write_deltalake(
                    table,
                    for_table(table, fill_columns(self.record, content, {"seq": state.seq})),
                    mode="overwrite",
                    commit_properties=CommitProperties(
                        max_commit_retries=0,
                        custom_metadata={"ballast.instance": state.instance, "ballast.seq": state.seq},
                    ),
                )
        except BaseException:
            self._table = None  # the handle's state is uncertain
            raise

    def _open(self) -> DeltaTable:
        if self._table is None or self._table.version() - self._opened_at >= REOPEN_AFTER_VERSIONS:
            self._table, rows = retry_on_vacuum(self._read)
            self._opened_at = self._table.version()
            self._seq = pc.max(rows["seq"]).as_py() or 0
            self._content = rows.drop_columns("seq").sort_by(self.record.names[0])
        return self._table

    def _read(self) -> tuple[DeltaTable, pa.Table]:
        table = self._root.open(self.record.name)
        return table, read_range(table, self._log, self.record, "seq", above=-1)


class _OwnershipTable:
    """The content of `ownership`, of which only those rows are made again that entries have changed: there may be a
    million bundles, and an entry every second."""

    def __init__(self) -> None:
        self._sources: Mapping[str, object] = {}  # by bundle, what its row was made of
        self._content = _as_table(OWNERSHIP, [])

    def of(self, state: ClusterState) -> pa.Table:
        known, sources = self._sources, _sources_of(state)
        changed = [name for name, source in sources.items() if (old := known.get(name)) is not source and old != source]
        gone = known.keys() - sources.keys()
        if changed or gone:
            parts = [_as_table(OWNERSHIP, _rows_of(state, names)) for names in _in_parts(changed)]
            if known:
                others = pc.is_in(self._content["bundle"], pa.array([*changed, *gone], pa.string()))
                parts.append(self._content.filter(pc.invert(others)))
            self._content, self._sources = pa.concat_tables(parts).sort_by("bundle"), sources
        return self._content


def _in_parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """A million rows as Python's objects would take gigabytes."""
    for begin in range(0, len(names), ROWS_AT_ONCE):
        yield names[begin : begin + ROWS_AT_ONCE]


def _sources_of(state: ClusterState) -> Mapping[str, object]:
    """By bundle, all that its row tells; equal for two states if the row is."""
    observed = state.observed
    if not observed.bundles:
        return state.bundles
    orders, blocks = observed.orders, observed.blocks
    seen = {name: (record, orders.get(name), blocks.get(name)) for name, record in observed.bundles.items()}
    return {**seen, **state.bundles}


def ownership_rows(state: ClusterState) -> list[Row]:
    """The rows of `ownership` without `seq`, by bundle name: owned bundles, and those that are only observed."""
    return sorted(_rows_of(state, _sources_of(state)), key=itemgetter("bundle"))


def _rows_of(state: ClusterState, names: Iterable[str]) -> list[Row]:
    bundles, observed = state.bundles, state.observed
    return [_ownership_row(name, bundles[name]) if name in bundles else _observed_row(observed, name) for name in names]


def _as_table(record: Record, rows: Iterable[Row]) -> pa.Table:
    """The content of a projection: its rows without `seq`, which says when they changed last."""
    return arrow_table(record, ({**row, "seq": 0} for row in rows)).drop_columns("seq")


def broker_rows(state: ClusterState) -> list[Row]:
    """The rows of `brokers` without `seq`, by broker id."""
    return [_broker_row(broker, state) for _, broker in sorted(state.brokers.items())]


def override_rows(state: ClusterState) -> list[Row]:
    """The rows of `overrides` without `seq`, by id."""
    return [_override_row(wish) for _, wish in sorted(state.overrides.items())]


def _ownership_row(name: str, record: Ownership) -> Row:
    bundle, by, to = record.bundle, record.by, record.to
    return {
        "bundle": name,
        "namespace": bundle.namespace,
        "lower": bundle.lower,
        "upper": bundle.upper,
        "state": record.state.value,
        "epoch": record.epoch,
        "by_broker": by.broker if by else None,
        "by_session": str(by) if by else None,
        "to_broker": to.broker if to else None,
        "to_session": str(to) if to else None,
        "released": record.released,
        "fence": record.fence,
        "boundary": record.boundary,
        "cause": record.cause or None,
        "moved_at_ms": record.moved_at_ms or None,
        "entry_seq": record.seq,
        "authority": None,
        "order_id": None,
        "order_kind": None,
        "orders_failed": None,
    }


def _observed_row(cluster: ObservedCluster, name: str) -> Row:
    seen, order, block = cluster.bundles[name], cluster.orders.get(name), cluster.blocks.get(name)
    return {
        "bundle": name,
        "namespace": seen.bundle.namespace,
        "lower": seen.bundle.lower,
        "upper": seen.bundle.upper,
        "state": cluster.state_of(name),
        "epoch": seen.seq,
        "by_broker": seen.broker,
        "by_session": None,
        "to_broker": order.target if order is not None else None,
        "to_session": None,
        "released": False,
        "fence": False,
        "boundary": order.boundary if order is not None else None,
        "cause": (order.decision_id or order.command_id) if order is not None else None,
        "moved_at_ms": seen.moved_at_ms or None,
        "entry_seq": order.seq if order is not None else seen.seq,
        "authority": METADATA,
        "order_id": order.id if order is not None else None,
        "order_kind": order.kind.value if order is not None else None,
        "orders_failed": block.failures or None if block is not None else None,
    }


def _broker_row(broker: Broker, state: ClusterState) -> Row:
    info, session = broker.info, broker.session
    capacity = info.get("capacity")
    return {
        "broker": broker.id,
        "incarnation": session.incarnation,
        "nonce": session.nonce,
        "session": str(session),
        "state": "alive" if state.alive(session) else "gone",
        "drained": broker.drained,
        "leaving": broker.leaving,
        "runtime": broker.runtime,
        "lookup_url": _text(info.get("lookup_url")),
        "data_address": _text(info.get("data_address")),
        "capacity_json": json.dumps(capacity, sort_keys=True) if capacity is not None else None,
        "entry_seq": broker.seq,
    }


def _override_row(wish: Override) -> Row:
    return {
        "override_id": wish.id,
        "kind": wish.kind,
        "namespace": wish.namespace,
        "bundle": wish.bundle,
        "broker": wish.broker,
        "until_ms": wish.until_ms,
        "who": wish.who or None,
        "why": wish.why or None,
        "entry_seq": wish.seq,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
