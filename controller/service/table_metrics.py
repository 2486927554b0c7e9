"""The Prometheus metrics of the tables: files, bytes and length of the log of each, and the controller's clean-up.

Tables are measured after a pass of the clean-up, in its thread. A young table is measured after each, as its figures
are soon wrong; one that nobody maintains takes seconds to list, so a table is left alone for MS_A_FILE per file, at
most LONGEST_MS. A table that cannot be measured keeps its last figures for that long.
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

MS_A_FILE = 1_000  # measured: 0.3 ms per file of a local table, so all 15 tables take no more than 0.5 % of a core
LONGEST_MS = 600_000


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
        self._left_alone: dict[str, tuple[int, int]] = {}  # table -> when it was measured, and for how long, ms

    def note_failure(self, table: str) -> None:
        """A table could not be cleaned up in this pass."""
        self.failures.labels(table).inc()

    def note_pass(self, tables: TableRoot, now_ms: int) -> None:
        """A pass has ended: measure the tables whose turn it is. `now_ms`: wall-clock time."""
        self.passes.inc()
        for name in TABLES:
            measured_ms, for_ms = self._left_alone.get(name, (now_ms, 0))
            if not 0 <= now_ms - measured_ms < for_ms:
                self._left_alone[name] = (now_ms, self._measure(tables, name))

    def _measure(self, tables: TableRoot, name: str) -> int:
        """Measure a table; how long to leave it alone now, ms."""
        try:
            size = measure_table(tables, name)
        except (DeltaError, OSError, BallastError) as error:
            log.warning("table %s not measured: %s", name, describe_error(error))
            return LONGEST_MS
        self.files.labels(name).set(size.files)
        self.size_bytes.labels(name).set(size.size_bytes)
        self.log_files.labels(name).set(size.log_files)
        return min(LONGEST_MS, MS_A_FILE * (size.files + size.log_files))
