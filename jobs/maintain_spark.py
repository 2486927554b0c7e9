"""Merging and removing files by Spark: OPTIMIZE and VACUUM, as distributed jobs.

OPTIMIZE changes no data, so it does not conflict with the loads query's appends. VACUUM takes the retention from the
table's own property (`delta.deletedFileRetentionDuration`), which is longer than any pinned read.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from controller.ledger.maintenance import BULK_FEWEST_FILES, BULK_TARGET_BYTES, dead_files
from controller.ledger.tables import TableRoot

# Files from the target size on are left alone: OPTIMIZE's own default rewrites everything below 1 GiB at each run.
SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(BULK_TARGET_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(BULK_TARGET_BYTES),
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",  # hours, by the table's own property
}


class SparkEngine:
    """`controller.ledger.maintenance.Engine` with Spark."""

    def __init__(self, spark: SparkSession, tables: TableRoot, fewest_files: int = BULK_FEWEST_FILES) -> None:
        self._spark = spark
        self._tables = tables
        self._fewest_files = fewest_files
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        # VACUUM cuts its work into so many tasks. The default is 10,000: measured, minutes for a folder of ten files.
        parallelism = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", parallelism)

    def compact(self, name: str) -> int:
        """OPTIMIZE, when there are enough small files; how many were merged away."""
        sizes = self._tables.open(name).get_add_actions().column("size_bytes").to_pylist()
        if sum(size < BULK_TARGET_BYTES for size in sizes) < self._fewest_files:
            return 0
        (row,) = self._spark.sql(f"OPTIMIZE {self._path(name)}").select("metrics.numFilesRemoved").collect()
        return int(row[0])

    def vacuum(self, name: str) -> int:
        """VACUUM, when a look (by delta-rs: one listing, no job) finds something to remove; how many files."""
        dead = dead_files(self._tables, name)
        if dead:
            self._spark.sql(f"VACUUM {self._path(name)}").collect()
        return dead

    def _path(self, name: str) -> str:
        return f"delta.`{self._tables.uri(name)}`"
