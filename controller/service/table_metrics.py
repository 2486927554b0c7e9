"""The Prometheus metrics of the tables: files, bytes and length of the log of each, and the controller's clean-up.

Tables are measured after a pass of the clean-up, in its thread and at most every MEASURED_MS, because a table that
nobody maintains takes seconds to list. A table that cannot be measured keeps its last figures.
"""

from __future__ import annotations

import logging

from deltalake.exceptions import DeltaError
from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.domain.errors import BallastError, describe_error
from controller.ledger.table_size import measure_table
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES

log = logging.getLogger(__name__)

MEASURED_MS = 600_000


class TableMetrics:
    """Written by the thread of the clean-up only."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.files = Gauge("ballast_table_files", "Data files of the newest version", ["table"], registry=r)
        self.size_bytes = Gauge("ballast_table_bytes", "Bytes of these files", ["table"], registry=r)
        self.log_files = Gauge("ballast_table_log_files", "Files in the table's _delta_log", ["table"], registry=r)
        self.passes = Counter("ballast_cleanup_passes", "Passes of the controller's clean-up that ended", registry=r)
        self.failures = Counter("ballast_cleanup_failures", "Tables that a pass failed on", ["table"], registry=r)
        for name in TABLES:  # a counter that begins with its first failure shows Prometheus no increase
            self.failures.labels(name)
        self._measured_ms: int | None = None

    def note_failure(self, table: str) -> None:
        """A table could not be cleaned up in this pass."""
        self.failures.labels(table).inc()

    def note_pass(self, tables: TableRoot, now_ms: int) -> None:
        """A pass has ended: measure all tables if it is time to. `now_ms`: wall-clock time."""
        self.passes.inc()
        if self._measured_ms is not None and 0 <= now_ms - self._measured_ms < MEASURED_MS:
            return
        self._measured_ms = now_ms
        for name in TABLES:
            try:
                size = measure_table(tables, name)
            except (DeltaError, OSError, BallastError) as error:
                log.warning("table %s not measured: %s", name, describe_error(error))
                continue
            self.files.labels(name).set(size.files)
            self.size_bytes.labels(name).set(size.size_bytes)
            self.log_files.labels(name).set(size.log_files)
