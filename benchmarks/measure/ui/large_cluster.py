"""Writes the tables of a large cluster after a day: journal, scores and decisions by round, load of every bundle.

The journal is that of `long_journal.py`, with an entry for each round. A round decides something about every broker;
one in ten moves a bundle. Only the newest panes of the load tables are written: no view reads more of a large cluster.
A broker's CPU usage is a base and what the traffic of its bundles costs, so the next round finds a skew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.measure.control.long_journal import INSTANCE, LongJournal
from controller.domain.entries import Entry, Kind
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.maintenance import merge_properties
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from schemas.arrow import arrow_schema, arrow_table
from schemas.catalog import TABLES

ROUND_MS, PANE_MS = 60_000, 10_000
ROUNDS_A_FILE = 60  # as the maintenance merges them
NAMESPACES = 100
BASE_CPU, TRAFFIC_CPU = 0.1, 0.4  # shares of a broker: when idle, and by average traffic
EVIDENCE = json.dumps({"score": 5_000, "mean": 4_800, "hits": 0, "limits": {"cpu": 500}, "bundles_lost": {}})

_Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How large the cluster and its history are."""

    brokers: int = 1_000
    bundles: int = 100_000
    entries: int = 1_000_000
    rounds: int = 1_440
    panes: int = 12


class LargeCluster:
    """The tables, and names that views are asked for."""

    def __init__(self, root: TableRoot, size: Size, now_ms: int) -> None:
        self.root, self.size, self.now_ms = root, size, now_ms // ROUND_MS * ROUND_MS
        self.journal = LongJournal(size.brokers, NAMESPACES, size.bundles // NAMESPACES)
        self.brokers = [session.broker for session in self.journal.sessions]
        self.bundles = [str(bundle) for bundle in self.journal.bundles]
        self._dice = np.random.default_rng(17)

    def write(self) -> None:
        """Create and fill the tables."""
        self.root.create_all()
        self.journal.write(self.root, self.journal.moves_for(self.size.entries - self.size.rounds))
        self._write_rounds()
        self._write_loads()
        state = load_state(self.root)
        self._write_panes(state)
        Snapshots(self.root).save(state, self.now_ms)

    def round_ids(self) -> list[str]:
        """Of all rounds, oldest first."""
        return [str(self._round_ms(n)) for n in range(self.size.rounds)]

    def _round_ms(self, n: int) -> int:
        return self.now_ms - (self.size.rounds - n) * ROUND_MS

    def _write_rounds(self) -> None:
        journal = Journal(self.root)
        entries = []
        for n, name in enumerate(self.round_ids()):
            data = {"round_id": name, "at_ms": self._round_ms(n), "plan_hash": "0" * 64, "counts": {}, "memory": {}}
            seq, at_ms = journal.last_seq + 1 + n, self._round_ms(n)
            entries.append(Entry(seq, Kind.ROUND, INSTANCE, n, at_ms, attempt_id=f"attempt-{n}", data=data))
        for start in range(0, self.size.rounds, ROUNDS_A_FILE):
            numbers = range(start, min(start + ROUNDS_A_FILE, self.size.rounds))
            self._append_merged("broker_scores", pa.concat_tables(self._scores(n) for n in numbers))
            self._append_merged("decisions", pa.concat_tables(self._decisions(n) for n in numbers))
            self._append_merged("rounds", arrow_table(TABLES["rounds"], self._rounds(numbers)))
        journal.commit(entries, INSTANCE, 0)

    def _common(self, n: int, rows: int) -> dict[str, Any]:
        at_ms = self._round_ms(n)
        return {"round_id": pa.repeat(str(at_ms), rows), "attempt_id": pa.repeat(f"attempt-{n}", rows),
                "at_ms": pa.repeat(at_ms, rows)}  # fmt: skip

    def _scores(self, n: int) -> pa.Table:
        count = self.size.brokers
        used = {f"{name}_utilisation": pa.array(self._dice.uniform(0.3, 0.7, count)) for name in RESOURCES}
        columns = self._common(n, count) | used | {
            "broker": pa.array(self.brokers), "score": used["cpu_utilisation"], "mean": pa.repeat(0.5, count),
            "hits": pa.repeat(0, count), "eligible": pa.repeat(True, count), "is_source": pa.repeat(False, count),
            "reason": pa.repeat("100_balanced", count),
        }  # fmt: skip
        return _table("broker_scores", columns, count)

    def _decisions(self, n: int) -> pa.Table:
        count = self.size.brokers
        moves = np.arange(count) < (1 if n % 10 == 0 else 0)
        bundle = pa.array([self.bundles[n * 7 % len(self.bundles)]] * count, mask=~moves)
        target = pa.array(np.roll(np.array(self.brokers, object), 1), mask=~moves)
        name = str(self._round_ms(n))
        columns = self._common(n, count) | {
            "decision_id": pa.array([f"{name}-{at:04d}" for at in range(count)]),
            "kind": pa.array(np.where(moves, "transfer", "skip")), "label": pa.repeat("skip", count),
            "reason": pa.repeat("100_balanced", count), "band": pa.repeat("normal", count),
            "bundle": bundle, "source": pa.array(self.brokers), "target": target,
            "strategy": pa.repeat("steady", count), "challenger": pa.repeat(False, count),
            "executed": pa.array(moves), "outcome": pa.array(["executed"] * count, mask=~moves),
            "evidence_json": pa.repeat(EVIDENCE, count), "before_json": pa.repeat("{}", count),
            "after_json": pa.repeat("{}", count),
        }  # fmt: skip
        return _table("decisions", columns, count)

    def _rounds(self, numbers: range) -> Iterator[dict[str, Any]]:
        for n in numbers:
            at_ms = self._round_ms(n)
            yield {
                "round_id": str(at_ms), "attempt_id": f"attempt-{n}", "at_ms": at_ms, "mode": "live",
                "strategy": "steady", "challenger": False, "state_seq": 1, "decisions": self.size.brokers,
                "moves": int(n % 10 == 0), "splits": 0, "skips": self.size.brokers - int(n % 10 == 0),
                "mean_score": 0.5, "max_score": 0.7, "plan_hash": "0" * 64, "config_version": "", "code_version": "",
                "inputs_json": "{}", "duration_ms": 900, "wall_ms": at_ms + 1_000, "rules": 1,
            }  # fmt: skip

    def _write_loads(self) -> None:
        count = len(self.bundles)
        names, spaces = pa.array(self.bundles), pa.array([b.namespace for b in self.journal.bundles])
        brokers = pa.array([self.brokers[at % len(self.brokers)] for at in range(count)])
        doubles = [f.name for f in arrow_schema(TABLES["bundle_load"]) if pa.types.is_floating(f.type)]
        for pane in range(self.size.panes):
            loads = pa.array(self._dice.lognormal(10, 2, count))
            columns = dict.fromkeys(doubles, loads) | {
                "as_of_ms": pa.repeat(self.now_ms - (self.size.panes - pane) * PANE_MS, count), "bundle": names,
                "namespace": spaces, "broker": brokers, "reports": pa.repeat(6, count),
                "writer": pa.repeat("bench", count), "batch_id": pa.repeat(pane, count),
            }  # fmt: skip
            self._append("bundle_load", _table("bundle_load", columns, count))

    def _write_panes(self, state: ClusterState) -> None:
        """A report of every broker in every pane, all its bundles listed."""
        at = {broker: number for number, broker in enumerate(self.brokers)}
        owners = [state.bundles[name].by for name in self.bundles]
        owner = np.array([at[session.broker] if session else 0 for session in owners])
        weights = self._dice.lognormal(0, 1, len(owner))
        for pane in range(self.size.panes):
            traffic = weights * self._dice.uniform(0.97, 1.03, len(owner))
            end_ms = self.now_ms - (self.size.panes - 1 - pane) * PANE_MS
            self._append("bundle_panes", self._bundle_pane(end_ms, owner, traffic))
            self._append("broker_panes", self._broker_pane(end_ms, owner, traffic))

    def _bundle_pane(self, end_ms: int, owner: _Numbers, traffic: _Numbers) -> pa.Table:
        count = len(owner)
        columns = _traffic_columns(traffic) | {
            "pane_end_ms": pa.repeat(end_ms, count), "bundle": pa.array(self.bundles),
            "namespace": pa.array([b.namespace for b in self.journal.bundles]),
            "broker": pa.array(self.brokers).take(pa.array(owner)), "reports": pa.repeat(1, count),
        }  # fmt: skip
        return _table("bundle_panes", columns, count)

    def _broker_pane(self, end_ms: int, owner: _Numbers, traffic: _Numbers) -> pa.Table:
        count = len(self.brokers)
        sums, held = (np.bincount(owner, weights, count) for weights in (traffic, None))
        cpu = np.minimum(1.0, BASE_CPU + TRAFFIC_CPU * sums / sums.mean())
        columns = _traffic_columns(sums) | {
            "pane_end_ms": pa.repeat(end_ms, count), "broker": pa.array(self.brokers),
            "incarnation": pa.repeat(1, count), "reports": pa.repeat(1, count), "cpu_usage_sum": pa.array(200 * cpu),
            "cpu_limit_sum": pa.repeat(200.0, count), "cpu_known": pa.repeat(1, count), "bundles_sum": pa.array(held),
            "last_sequence": pa.repeat(end_ms, count), "first_event_ms": pa.repeat(end_ms - PANE_MS, count),
            "last_event_ms": pa.repeat(end_ms, count),
        }  # fmt: skip
        return _table("broker_panes", columns, count)

    def _append(self, name: str, rows: pa.Table) -> None:
        write_deltalake(self.root.open(name), rows, mode="append")

    def _append_merged(self, name: str, rows: pa.Table) -> None:
        """As the maintenance leaves them."""
        write_deltalake(self.root.open(name), rows, mode="append", writer_properties=merge_properties(name))


def _traffic_columns(traffic: _Numbers) -> dict[str, Any]:
    """The sums of a pane by bundle or broker: messages of a kilobyte, as many out as in; no clients, no storage."""
    per_s = {"msg_rate_in": 50 * traffic, "msg_rate_out": 50 * traffic}
    per_s |= {"throughput_in": 50_000 * traffic, "throughput_out": 50_000 * traffic}
    nothing = np.zeros(len(traffic))
    return {f"{name}_sum": pa.array(per_s.get(name, nothing)) for name in BUNDLE_FIELDS}


def _table(name: str, columns: dict[str, Any], count: int) -> pa.Table:
    """A table with the definition's columns; those that are not given are null, or zero where that is not allowed."""
    schema = arrow_schema(TABLES[name])
    arrays = [columns[f.name].cast(f.type) if f.name in columns else _nothing(f, count) for f in schema]
    return pa.table(arrays, schema=schema)


def _nothing(column: pa.Field, count: int) -> pa.Array:
    if column.nullable:
        return pa.nulls(count, column.type)
    return pa.repeat(pa.scalar("" if pa.types.is_string(column.type) else 0, column.type), count)
