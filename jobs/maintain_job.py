"""The maintenance job: expires rows, merges small files and removes dead ones with Spark, table after table.

A table that fails does not hold up the others: the exit code is 1 then, and the next run catches up. OPTIMIZE changes
no data, so it does not conflict with appends of the loads query. VACUUM uses the retention of the table's property
`delta.deletedFileRetentionDuration`, which is longer than any pinned read.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from controller.config.arguments import OneLineParser, add_settings_arguments
from controller.config.load import load_settings
from controller.config.places import check_old_place
from controller.config.retention import retention_ms
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import ConfigError, first_line
from controller.ledger.maintenance import (
    BULK,
    BULK_FEWEST_FILES,
    BULK_TARGET_BYTES,
    Engine,
    Tended,
    dead_files,
    maintain,
)
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.process.logs import configure_logs
from controller.process.spark_submit import NoMaster
from controller.service.start_checks import check_spark_maintenance
from jobs.session import build_session

log = logging.getLogger("ballast.maintain")

EXIT_FAILED, EXIT_CONFIG = 1, 2
# Files of the target size or more stay as they are: by default OPTIMIZE rewrites everything below 1 GiB on each run.
DELTA_SETTINGS = {
    "spark.databricks.delta.optimize.minFileSize": str(BULK_TARGET_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(BULK_TARGET_BYTES),
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",  # hours, by the table's own property
}


def main(argv: Sequence[str]) -> int:
    """Maintain the tables once; return the exit code."""
    given = _arguments(argv)
    try:
        settings = load_settings(given.conf, given.profile, given.set)
        check_old_place(settings)
        check_spark_maintenance(settings)
    except ConfigError as error:
        print(f"ballast maintain: {error}", file=sys.stderr, flush=True)
        return EXIT_CONFIG
    configure_logs(settings.logging.level, settings.logging.json_lines, cluster=settings.cluster.name)
    try:
        spark = build_session(f"ballast-maintain-{settings.cluster.name}")
    except NoMaster as error:
        print(f"ballast maintain: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    try:
        tables = table_root(settings)
        done = maintain_all(tables, SparkEngine(spark, tables), settings, given.table or BULK)
    finally:
        spark.stop()
    return 0 if all(each is not None for each in done) else EXIT_FAILED


def maintain_all(tables: TableRoot, engine: Engine, settings: Settings, names: Sequence[str]) -> list[Tended | None]:
    """Maintain every table once; None for a table that failed, which is logged."""
    done: list[Tended | None] = []
    for name in names:
        try:
            found = maintain(tables, engine, retention_ms(settings), wall_ms(), name)
        except Exception as error:  # of Spark, delta-rs or the storage: the other tables still need maintenance
            log.error("%s: %s: %s", name, type(error).__name__, first_line(error))
            done.append(None)
            continue
        log.info(
            "%s: %d rows expired, %d files merged, %d files removed",
            name, found.expired_rows, found.merged_files, found.removed_files,
        )  # fmt: skip
        done.append(found)
    return done


class SparkEngine:
    """The `controller.ledger.maintenance.Engine` that uses Spark."""

    def __init__(self, spark: SparkSession, tables: TableRoot, fewest_files: int = BULK_FEWEST_FILES) -> None:
        self._spark = spark
        self._tables = tables
        self._fewest_files = fewest_files
        for key, value in DELTA_SETTINGS.items():
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


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(
        prog="maintain.py",
        description="Expire rows, merge small files and remove dead ones of the load and evidence tables, beside a "
        "running job. Exit codes: 0 done, 1 a table failed, 2 bad configuration.",
    )
    add_settings_arguments(parser)
    parser.add_argument("--table", action="append", choices=BULK, help="only this table; repeatable")
    return parser.parse_args(argv)
