"""Checks the tables themselves: whether each can be read and by which protocol, the length of logs, the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from controller.domain.errors import IncompatibleTable, describe_error, without_login
from controller.ledger.damage import DamagedTable
from controller.ledger.tables import TableRoot
from controller.operations.doctor.finding import Finding, Page, fine, severe, warning
from controller.operations.text import count_text
from schemas.catalog import TABLES
from schemas.record import TableOptions

MOST_LOG_FILES = {True: 5_000, False: 50_000}  # of tables that the controller cleans up, and of those it does not
MOST_DATA_FILES = 10_000
REPAIR = "run `ballast repair`, which says how the table would be mended"
CHECKPOINTS_MISSED = 5  # commits since the last checkpoint, in intervals of the table


def check_tables(root: TableRoot) -> Iterator[Finding]:
    """Whether every table is there and can be read, then their logs."""
    opened: dict[str, DeltaTable] = {}
    missing = []
    for name in TABLES:
        try:
            if root.exists(name):
                opened[name] = root.open(name)
            else:
                missing.append(name)
        except IncompatibleTable as error:
            remedy = "run that statement with Spark, and keep other programs from changing the table"
            yield severe("tables", describe_error(error), remedy, Page.TABLES)
        except DamagedTable as error:
            yield severe("tables", describe_error(error), REPAIR, Page.DAMAGED)
        except (DeltaError, OSError) as error:
            text = f"table {name} cannot be read: {describe_error(error)}"
            yield severe("tables", text, "check the store and its permissions", Page.SLOW_STORE)
    if missing:
        remedy = (
            "the next start of `ballast run` creates them, and the controller writes ownership, brokers and overrides "
            "anew from the journal; `ballast repair` says what is lost with the others"
        )
        yield warning("tables", f"there is no table {', '.join(missing)}", remedy, Page.PROJECTIONS)
    if opened:
        yield from _check_commits(root, opened)
        versions = [table.protocol() for table in opened.values()]
        reader, writer = max(v.min_reader_version for v in versions), max(v.min_writer_version for v in versions)
        place = without_login(root.root)
        yield fine("tables", f"{len(opened)} tables at {place}, protocol: reader {reader}, writer {writer} at most")
        yield from _check_logs(root, opened)


def _check_commits(root: TableRoot, opened: Iterable[str]) -> Iterator[Finding]:
    """The commits that the controller's own tables consist of are whole, also where delta-rs does not notice."""
    for name in opened:
        if (TABLES[name].table or TableOptions()).tended_by_writer and (damage := root.log(name).find_damage()):
            yield severe("tables", describe_error(damage), REPAIR, Page.DAMAGED)


def _check_logs(root: TableRoot, opened: Mapping[str, DeltaTable]) -> Iterator[Finding]:
    logs = {name: root.log(name).count_files() for name in opened}
    files = {name: len(table.file_uris()) for name, table in opened.items()}
    found = False
    for name, table in opened.items():
        faults = list(_check_log(root, name, table, logs[name], files[name]))
        found = found or bool(faults)
        yield from faults
    if not found:
        longest, fullest = max(logs, key=lambda name: logs[name]), max(files, key=lambda name: files[name])
        log, data = count_text(logs[longest], "file"), files[fullest]
        yield fine("logs", f"at most {log} of log ({longest}) and {data} of data ({fullest}) a table")


def _check_log(root: TableRoot, name: str, table: DeltaTable, log_files: int, data_files: int) -> Iterator[Finding]:
    """A table's log has a checkpoint now and then, and neither log nor data has too many files."""
    options = TABLES[name].table or TableOptions()
    since = table.version() - root.log(name).last_checkpoint()
    if since > CHECKPOINTS_MISSED * options.checkpoint_interval:
        text = (
            f"{name} has {since} commits since its last checkpoint, where one is due every "
            f"{options.checkpoint_interval}: every reader replays them all"
        )
        yield warning("logs", text, "see the writer's log for checkpoints that fail, and restart it", Page.WATCH)
    tended = options.tended_by_writer
    if log_files > MOST_LOG_FILES[tended]:
        remedy = "restart the controller, whose clean-up thread does not run" if tended else "run `ballast maintain`"
        page = Page.WATCH if tended else Page.MAINTENANCE
        yield warning("logs", f"the log of {name} has {log_files} files", remedy, page)
    if data_files > MOST_DATA_FILES:
        remedy = "schedule `ballast maintain` every hour; its first run takes longest"
        yield warning("logs", f"{name} has {data_files} data files", remedy, Page.MAINTENANCE)
