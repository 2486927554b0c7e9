"""Merges and removes files with Spark: OPTIMIZE and VACUUM as distributed jobs.

OPTIMIZE changes no data, so it does not conflict with appends of the loads query. VACUUM uses the retention of the
table's property `delta.deletedFileRetentionDuration`, which is longer than any pinned read.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from controller.ledger.maintenance import BULK_FEWEST_FILES, BULK_TARGET_BYTES, dead_files
from controller.ledger.tables import TableRoot

# Files of the target size or more stay as they are: by default OPTIMIZE rewrites everything below 1 GiB on each run.
SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(BULK_TARGET_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(BULK_TARGET_BYTES),
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",  # hours, by the table's own property
}


class SparkEngine:
    """The `controller.ledger.maintenance.Engine` that uses Spark."""

    def __init__(self, spark: SparkSession, tables: TableRoot, fewest_files: int = BULK_FEWEST_FILES) -> None:
        self._spark = spark
        self._tables = tables
        self._fewest_files = fewest_files
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        # The number of tasks of a VACUUM. The default of 10,000 took minutes for a folder of ten files.
        parallelism = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", parallelism)

    def compact(self, name: str) -> int:
        """Run OPTIMIZE if there are enough small files; return how many files were merged away."""
        sizes = self._tables.open(name).get_add_actions().column("size_bytes").to_pylist()
        if sum(size < BULK_TARGET_BYTES for size in sizes) < self._fewest_files:
            return 0
        (row,) = self._spark.sql(f"OPTIMIZE {self._path(name)}").select("metrics.numFilesRemoved").collect()
        return int(row[0])

    def vacuum(self, name: str) -> int:
        """Run VACUUM if delta-rs finds dead files (one listing, no job); return how many there were."""
        dead = dead_files(self._tables, name)
        if dead:
            self._spark.sql(f"VACUUM {self._path(name)}").collect()
        return dead

    def _path(self, name: str) -> str:
        return f"delta.`{self._tables.uri(name)}`"
