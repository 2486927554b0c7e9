"""`ballast maintain`: expires rows, merges small files and removes dead ones; safe next to a running job.

It covers the load and evidence tables; the controller maintains the control tables itself. By default it runs in this
process with delta-rs and no JVM; with `--spark` it runs `spark-submit jobs/maintain.py`, which distributes the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table
from controller.config.places import check_old_place
from controller.config.retention import retention_ms
from controller.config.table_root import table_root
from controller.domain.errors import ConfigError
from controller.ledger.maintenance import BULK, DeltaRsEngine, Tended, maintain
from controller.operations.reading import no_tables
from controller.process.clock import wall_ms
from controller.process.paths import CODE
from controller.process.spark_submit import LOCAL_SPARK_CONF, spark_environment, spark_submit_command
from controller.service.start_checks import check_spark_maintenance

JOB = CODE / "jobs" / "maintain.py"
app = new_app()

Tables = Annotated[list[str] | None, typer.Option("--table", help="Only this table; repeatable.", show_default=False)]


@app.command()
@report_errors
def run(
    table: Tables = None,
    spark: Annotated[bool, typer.Option("--spark", help="Distribute the work with spark-submit.")] = False,
    spark_conf: Annotated[Path, typer.Option("--spark-conf", help="Spark properties file.")] = LOCAL_SPARK_CONF,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Delete rows older than the section `retention` of the configuration allows; merge and remove files."""
    names = tables_to_maintain(table)
    if spark:
        check_spark_maintenance(settings_of(conf, profile, sets))
        command = spark_submit_command(job_arguments(names, conf, profile, sets or []), spark_conf, JOB)
        sys.stdout.flush()
        os.execve(command[0], command, spark_environment(os.environ, spark_conf))
    settings = settings_of(conf, profile, sets)
    check_old_place(settings)
    tables = table_root(settings)
    if not any(tables.exists(name) for name in BULK):  # a mistyped address must not look like a success
        raise no_tables(tables.root, settings.file)
    engine, kept, now_ms = DeltaRsEngine(tables), retention_ms(settings), wall_ms()
    show([maintain(tables, engine, kept, now_ms, name) for name in names], as_json)


def tables_to_maintain(tables: Sequence[str] | None) -> list[str]:
    """The names of the tables to maintain. Raises ConfigError for other names."""
    unknown = sorted(set(tables or ()) - set(BULK))
    if unknown:
        raise ConfigError(
            f"--table {unknown[0]}: give one of {', '.join(BULK)} (all others are cleaned up by the controller)"
        )
    return list(dict.fromkeys(tables)) if tables else list(BULK)


def job_arguments(names: Sequence[str], conf: Path | None, profile: str | None, sets: Sequence[str]) -> list[str]:
    """The arguments of jobs/maintain.py."""
    words = [word for name in names for word in ("--table", name)]
    words += ["--conf", str(conf)] if conf else []
    words += ["--profile", profile] if profile else []
    return words + [word for given in sets for word in ("--set", given)]


def show(done: Sequence[Tended], as_json: bool) -> None:
    """Print what was done, one line per table."""
    rows = [(each.table, each.expired_rows, each.merged_files, each.removed_files) for each in done]
    names = ("table", "expired_rows", "merged_files", "removed_files")
    if as_json:
        emit_json({"tables": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        emit_table([name.replace("_", " ") for name in names], rows, "maintenance")
