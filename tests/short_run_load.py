"""The load of a short run: what each broker serves becomes partial panes and rolling averages, by the ledger's code.

A bundle has a message rate; its broker's CPU and bandwidth follow from what the broker owns, so load moves when
ownership does. Two reports a pane, with a little seeded noise.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.ledger.append import append
from controller.ledger.files import read_range
from controller.ledger.loads import average_brokers, average_bundles
from controller.ledger.tables import TableRoot
from schemas.arrow import arrow_table
from schemas.load_tables import BROKER_LOAD, BROKER_PANES, BUNDLE_LOAD, BUNDLE_PANES

PANE_MS = 10_000
REPORTS_A_PANE = 2
BYTES_A_MESSAGE = 1_000
HALF_LIFE_MS = 3_600_000
LIMITS = {"cpu": 400.0, "memory": 4e9, "direct_memory": 2e9, "bandwidth_in": 125e6, "bandwidth_out": 125e6}
APP = "short-run"

Owned = Mapping[str, tuple[int, Sequence[str]]]  # broker -> (incarnation, names of the bundles it serves)


class LoadRun:
    """Writes panes and rolling averages of one cluster. `rates`: bundle -> messages/s in; as many go out."""

    def __init__(self, root: TableRoot, horizon_ms: int, seed: int = 7) -> None:
        self.rates: dict[str, float] = {}
        self.other_cpu: dict[str, float] = {}  # broker -> points that something else uses there
        self.cpu_limits: dict[str, float] = {}  # broker -> other than usual
        self._root = root
        self._horizon_ms = horizon_ms
        self._random = random.Random(seed)
        self._batch = 0
        self._long: dict[tuple[str, ...], list[float]] = {}

    def pane(self, end_ms: int, owned: Owned) -> None:
        """What happened in [end_ms - 10 s, end_ms), and the averages as of its end."""
        self._batch += 1
        brokers: list[dict[str, Any]] = []
        bundles: list[dict[str, Any]] = []
        for broker, (incarnation, names) in sorted(owned.items()):
            rows = [self._bundle(end_ms, broker, name) for name in names]
            bundles += rows
            brokers.append(self._broker(end_ms, broker, incarnation, rows))
        told = {"ballast.max_event_ms": str(end_ms - 1_000)}
        self._append("bundle_panes", arrow_table(BUNDLE_PANES, bundles))
        self._append("broker_panes", arrow_table(BROKER_PANES, brokers), told)
        self._averages(end_ms)

    def _bundle(self, end_ms: int, broker: str, name: str) -> dict[str, Any]:
        rate = self.rates.get(name, 0.0) * self._random.uniform(0.97, 1.03)
        values = dict.fromkeys(BUNDLE_FIELDS, 0.0) | {
            "msg_rate_in": rate, "msg_rate_out": rate,
            "throughput_in": rate * BYTES_A_MESSAGE, "throughput_out": rate * BYTES_A_MESSAGE,
            "topics": 5.0, "producers": 4.0, "consumers": 6.0, "sessions": 10.0,
            "backlog_bytes": rate * 50, "storage_bytes": rate * 10_000,
        }  # fmt: skip
        row: dict[str, Any] = {"pane_end_ms": end_ms, "bundle": name, "namespace": name.rpartition("/")[0]}
        row |= {"broker": broker, "reports": REPORTS_A_PANE, "writer": APP, "batch_id": self._batch}
        row |= {f"{f}_sum": values[f] * REPORTS_A_PANE for f in BUNDLE_FIELDS}
        return row | {f"{f}_max": values[f] for f in BUNDLE_FIELDS}

    def _broker(self, end_ms: int, broker: str, incarnation: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        sums = {f: sum(row[f"{f}_sum"] for row in rows) for f in BUNDLE_FIELDS}
        per_s = {f: sums[f] / REPORTS_A_PANE for f in BUNDLE_FIELDS}
        used = {
            "cpu": 10.0 + self.other_cpu.get(broker, 0.0) + (per_s["msg_rate_in"] + per_s["msg_rate_out"]) / 100,
            "memory": 1.2e9,
            "direct_memory": 0.2e9,
            "bandwidth_in": per_s["throughput_in"],
            "bandwidth_out": per_s["throughput_out"],
        }
        row: dict[str, Any] = {"pane_end_ms": end_ms, "broker": broker, "incarnation": incarnation}
        for name in RESOURCES:  # disk_io stays unknown: no broker of this run has a limit for it
            known = REPORTS_A_PANE if name in LIMITS else 0
            row |= {f"{name}_usage_sum": used.get(name, 0.0) * known, f"{name}_usage_max": used.get(name, 0.0)}
            limit = self.cpu_limits.get(broker, LIMITS["cpu"]) if name == "cpu" else LIMITS.get(name, 0.0)
            row |= {f"{name}_limit_sum": limit * known, f"{name}_known": known}
        for name, ms in (("rpc_queue_ms", 0.5), ("metadata_latency_ms", 3.0)):
            row |= {f"{name}_sum": ms * REPORTS_A_PANE, f"{name}_max": ms}
        row |= {f"{f}_sum": sums[f] for f in BUNDLE_FIELDS} | {"bundles_sum": float(len(rows) * REPORTS_A_PANE)}
        row |= {"reports": REPORTS_A_PANE, "last_sequence": self._batch * REPORTS_A_PANE}
        row |= {"first_event_ms": end_ms - 6_000, "last_event_ms": end_ms - 1_000}
        return row | {"writer": APP, "batch_id": self._batch}

    def _averages(self, end_ms: int) -> None:
        brokers = average_brokers(self._window("broker_panes", BROKER_PANES, end_ms))
        longs = [f"{r}_utilisation" for r in RESOURCES]
        self._append("broker_load", self._load(brokers, end_ms, ("broker", "incarnation"), longs, "_long"))
        bundles = average_bundles(self._window("bundle_panes", BUNDLE_PANES, end_ms))
        traffic = {name: pc.add(bundles[f"{name}_in"], bundles[f"{name}_out"]) for name in ("msg_rate", "throughput")}
        for name, values in traffic.items():
            bundles = bundles.append_column(name, values)
        self._append("bundle_load", self._load(bundles, end_ms, ("bundle", "broker"), list(traffic), "_long"))

    def _window(self, name: str, record: Any, end_ms: int) -> pa.Table:
        return read_range(
            self._root.handle(name), self._root.log(name), record, "pane_end_ms", end_ms - self._horizon_ms, end_ms
        )

    def _load(self, short: pa.Table, end_ms: int, key: tuple[str, ...], longs: list[str], suffix: str) -> pa.Table:
        """The rows of a load table: the short averages, a decayed one beside each of `longs`."""
        decay = 2 ** (-PANE_MS / HALF_LIFE_MS)
        rows = []
        for row in short.to_pylist():
            kept = self._long.setdefault((*longs, *(str(row[k]) for k in key)), [row[name] or 0.0 for name in longs])
            for at, name in enumerate(longs):
                kept[at] = decay * kept[at] + (1 - decay) * (row[name] or 0.0)
            long = {f"{name}{suffix}": value for name, value in zip(longs, kept, strict=True)}
            moment = {"as_of_ms": end_ms, "short_from_ms": end_ms - self._horizon_ms}
            rows.append({**row, **long, **moment, "writer": APP, "batch_id": self._batch})
        return arrow_table(BROKER_LOAD if "incarnation" in key else BUNDLE_LOAD, rows)

    def _append(self, name: str, rows: pa.Table, metadata: Mapping[str, str] | None = None) -> None:
        append(self._root, name, rows, f"{APP}-{name}", self._batch, metadata)
