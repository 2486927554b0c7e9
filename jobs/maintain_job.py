"""The maintenance job: loads the settings, builds the session, maintains table after table, returns an exit code.

A table that fails does not hold up the others: the exit code is 1 then, and the next run catches up.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from controller.config.arguments import add_settings_arguments
from controller.config.load import load_settings
from controller.config.places import check_old_place
from controller.config.retention import retention_ms
from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.ledger.maintenance import BULK, Engine, Tended, maintain
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.process.logs import configure_logs
from jobs.maintain_spark import SparkEngine
from jobs.session import build_session

log = logging.getLogger("ballast.maintain")

EXIT_FAILED, EXIT_CONFIG = 1, 2


def main(argv: Sequence[str]) -> int:
    """Maintain the tables once; return the exit code."""
    given = _arguments(argv)
    try:
        settings = load_settings(given.conf, given.profile, given.set)
        check_old_place(settings)
    except ConfigError as error:
        print(f"ballast maintain: {error}", file=sys.stderr, flush=True)
        return EXIT_CONFIG
    configure_logs(settings.logging.level, settings.logging.json_lines, cluster=settings.cluster.name)
    spark = build_session(f"ballast-maintain-{settings.cluster.name}")
    try:
        tables = TableRoot(settings.tables.root)
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
            log.error("%s: %s: %s", name, type(error).__name__, str(error).splitlines()[0])
            done.append(None)
            continue
        log.info(
            "%s: %d rows expired, %d files merged, %d files removed",
            name, found.expired_rows, found.merged_files, found.removed_files,
        )  # fmt: skip
        done.append(found)
    return done


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="maintain.py",
        description="Expire rows, merge small files and remove dead ones of the load and evidence tables, beside a "
        "running job. Exit codes: 0 done, 1 a table failed, 2 bad configuration.",
    )
    add_settings_arguments(parser)
    parser.add_argument("--table", action="append", choices=BULK, help="only this table; repeatable")
    return parser.parse_args(argv)
