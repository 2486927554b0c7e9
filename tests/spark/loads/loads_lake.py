"""Load tables in a folder of a test, batches run against them without Kafka, and their rows as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from controller.ledger.tables import TableRoot
from controller.loads.settings import LoadsSettings
from jobs.loads_batch import BatchReport, LoadsBatch
from jobs.loads_parse import prepare_records
from schemas.catalog import TABLES
from tests.spark.loads.loads_samples import START_MS, Row, frame

LOAD_TABLES = ("broker_panes", "bundle_panes", "broker_load", "bundle_load", "quarantine")
PANE_MS = 10_000


class Lake:
    """The load tables below one folder. `keyed`: a batch is one partition, so that a broker's reports are together."""

    def __init__(
        self, spark: SparkSession, folder: Path, writer: str = "delta_rs", keyed: bool = True, **settings: Any
    ) -> None:
        self.spark = spark
        self.keyed = keyed
        self.folder = folder
        self.root = TableRoot(folder)
        for name in LOAD_TABLES:
            self.root.create(name)
        self.settings = LoadsSettings(tables_root=str(folder), writer=writer, **settings)
        self.batch = self.fresh()

    def fresh(self, writer: str | None = None) -> LoadsBatch:
        """What a restarted process has: nothing in memory."""
        settings = self.settings
        if writer:
            settings = LoadsSettings(**{**settings.__dict__, "writer": writer})
        return LoadsBatch(settings, TableRoot(self.folder), lambda: START_MS + 200_000)

    def run(self, rows: list[Row], number: int, batch: LoadsBatch | None = None) -> BatchReport:
        """One batch of Kafka records."""
        records = prepare_records(frame(self.spark, rows), self.settings)
        return (batch or self.batch).process(records.coalesce(1) if self.keyed else records, number, "query-1")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The table's rows in the order of its key."""
        key = (*TABLES[name].table.key, "batch_id")  # type: ignore[union-attr]
        found = self.root.open(name).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda r: tuple(r[column] for column in key))

    def all_rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every load table."""
        return {name: self.rows(name) for name in LOAD_TABLES}


def merged(panes: list[dict[str, Any]], keys: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, float]]:
    """Partial panes merged as every reader merges them: counts and sums add, maxima take the larger."""
    out: dict[tuple[Any, ...], dict[str, float]] = {}
    for pane in panes:
        into = out.setdefault(tuple(pane[key] for key in keys), {})
        for name, value in pane.items():
            if name == "reports" or name.endswith(("_sum", "_known")):
                into[name] = into.get(name, 0) + value
            elif name.endswith("_max") or name in ("last_sequence", "last_event_ms"):
                into[name] = max(into.get(name, value), value)
    return out
