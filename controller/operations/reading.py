"""Reads the tables for commands: the state, rows of a range, newest rows. No JVM, no Kafka, no writes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from controller.config.places import check_old_place
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError, without_login
from controller.domain.state import METADATA, ClusterState
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.partial.outline import Outline, load_outline
from controller.ledger.snapshots import load_state
from controller.operations.capture.about import slice_end_ms
from controller.process.paths import RUN, START_DEMO
from schemas.catalog import TABLES
from schemas.journal import JOURNAL

log = logging.getLogger(__name__)
SILENT_S = 5.0


class NoTables(BallastError):
    """Raised when there is no journal at the configured place of the tables."""


class NothingNamed(BallastError):
    """Raised when no decision, round, broker or bundle has the given name."""


class MissingTable(BallastError):
    """Raised when a table is not there that must have rows, as the journal names them."""


def no_tables(root: str, file: Path | None = None) -> NoTables:
    """The error for a root without tables, with the next step. `file`: the configuration file that names the root."""
    return NoTables(
        f"no tables at {root}: start a controller (`ballast run` or `{START_DEMO}`), which makes them within a minute, "
        f"or say where they are with --conf FILE or --set tables.root=PATH{_hint_at_runs(file)}"
    )


@contextmanager
def _telling_silence(root: str) -> Iterator[None]:
    """Say that the store of the tables does not answer, while it is asked: an object store may be for minutes."""
    timer = threading.Timer(SILENT_S, log.warning, ("the table store of %s does not answer yet", without_login(root)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Reader:
    """Reads the tables of one cluster at their newest versions.

    `at_once`: for a command that answers and ends, so that each table is opened once, as opening takes longer than most
    reads. `window_ms`: a round's averages may hold load that is this old. Raises NoTables if there are none,
    ConfigError if they are where version 0.1.0 would have looked.
    """

    def __init__(self, settings: Settings, at_once: bool = False) -> None:
        check_old_place(settings)
        self._kept: dict[str, DeltaTable] | None = {} if at_once else None
        self.root = table_root(settings)
        self.window_ms = 1_000 * (settings.loads.short_horizon_s + settings.loads.pane_s)
        with _telling_silence(self.root.root):
            found = self.root.exists("journal")
        if not found:
            raise no_tables(self.root.root, settings.file)

    @cached_property
    def slice_end_ms(self) -> int | None:
        """The wall-clock time at which the slice ends that these tables are; None for a cluster's tables."""
        return slice_end_ms(self.root.root)

    def state(self) -> ClusterState:
        """The cluster's state according to the journal."""
        return load_state(self.root)

    def outline(self, names: Collection[str] = ()) -> Outline:
        """The state without most of its bundles, for what shows these `names` and counts the others."""
        return load_outline(self.root, names)

    def lookup_urls(self) -> list[str]:
        """Where agents answer lookups. An observed broker names its own web service, which answers none of ours and
        must not see our token."""
        live = self.outline().state.live_brokers()
        return [str(b.info["lookup_url"]) for b in live if b.info.get("lookup_url") and b.authority != METADATA]

    def attempts(self) -> Mapping[str, int]:
        """Attempt id -> seq of the first journal entry that names it: the evidence that counts."""
        entries = self.rows("journal", "seq", columns=["seq", "attempt_id"], given=["attempt_id"])
        named = entries.sort_by([("seq", "descending")])
        return dict(zip(named["attempt_id"].to_pylist(), named["seq"].to_pylist(), strict=True))

    def entries_since(self, at_ms: int) -> list[Entry]:
        """The journal's entries after this wall-clock time, in no order."""
        return [Entry.from_row(row) for row in self.rows("journal", "at_ms", above=at_ms).to_pylist()]

    def newest_entries(self, column: str, value: str, limit: int) -> list[Entry]:
        """The newest `limit` entries whose text column has this value, oldest of them first.

        The wide columns are read for these entries alone.
        """
        seqs = self.rows("journal", "seq", columns=["seq"], equal={column: value})["seq"].to_pylist()
        chosen = sorted(seqs)[-limit:]
        if not chosen:
            return []
        rows = self.rows("journal", "seq", chosen[0] - 1, chosen[-1], JOURNAL.names, among=chosen)
        return [Entry.from_row(row) for row in rows.sort_by("seq").to_pylist()]

    def plan_entries(self) -> list[Entry]:
        """The entries about plans that an operator decides about, oldest first."""
        return self.entries_of(Kind.PLAN)

    def entries_of(self, kind: Kind, up_to: int | None = None) -> list[Entry]:
        """The entries of this kind, oldest first. The wide columns are read only where there are some."""
        only = {"kind": kind.value}
        seqs = self.rows("journal", "seq", up_to=up_to, columns=["seq"], equal=only)["seq"].to_pylist()
        if not seqs:
            return []
        rows = self.rows("journal", "seq", min(seqs) - 1, max(seqs), JOURNAL.names, equal=only)
        return [Entry.from_row(row) for row in rows.sort_by("seq").to_pylist()]

    def split_into(self, bundle: str) -> Entry | None:
        """The split that made this bundle; None for one of a namespace's first."""
        split = {"kind": Kind.SPLIT.value}
        seqs = self.rows("journal", "seq", columns=["seq"], equal=split)["seq"].to_pylist()
        if not seqs:
            return None
        rows = self.rows("journal", "seq", min(seqs) - 1, max(seqs), JOURNAL.names, equal=split)
        named = rows.filter(pc.match_substring(rows["data"], json.dumps(bundle))).sort_by("seq")
        return Entry.from_row(named.slice(0, 1).to_pylist()[0]) if named.num_rows else None

    def rows(
        self,
        name: str,
        column: str,
        above: int = -1,
        up_to: int | None = None,
        columns: Sequence[str] | None = None,
        equal: Mapping[str, str] | None = None,
        among: Sequence[int] | None = None,
        given: Sequence[str] = (),
    ) -> pa.Table:
        """Rows as `read_range` gives them: above < column <= up_to, the `equal` values, `column` `among` few, and what
        is `given`.

        Empty if the table does not exist yet.
        """
        record = TABLES[name]

        def read() -> pa.Table:
            table, log = self.open(name), self.root.log(name)
            try:
                return read_range(table, log, record, column, above, up_to, columns, equal, among, given)
            except FileNotFoundError:
                self.forget(name)
                raise

        if not self.exists(name):
            wanted = columns or record.names
            return pa.table({c: pa.array([], pa.null()) for c in wanted})
        return retry_on_vacuum(read)

    def check_rounds_kept(self, name: str) -> None:
        """Raise MissingTable if this table of evidence is not there, and the journal names rounds: that none has run
        would be untrue."""
        if self.exists(name):
            return
        from controller.ledger.repair import missing  # rarely needed, and commands start fast

        lost = missing.lost_rounds_text(name, self.outline().state)
        if lost:
            raise MissingTable(
                f"table {name} {lost}: put a copy of the table in its place if there is one; {missing.NEXT_STEP}, "
                "empty (`ballast repair` says what else is missing)"
            )

    def exists(self, name: str) -> bool:
        """Whether the table has been created."""
        return (self._kept is not None and name in self._kept) or self.root.exists(name)

    def open(self, name: str) -> DeltaTable:
        """The table at its newest version."""
        if self._kept is None:
            return self.root.open(name)
        if name not in self._kept:
            self._kept[name] = self.root.open(name)
        return self._kept[name]

    def forget(self, name: str) -> None:
        """VACUUM has removed a file of the version that was opened."""
        if self._kept is not None:
            self._kept.pop(name, None)

    def newest(self, name: str, column: str) -> int | None:
        """The largest value of a column; it must have file statistics (one of a table's first 32)."""
        if not self.exists(name):
            return None
        actions = pa.table(self.open(name).get_add_actions(flatten=True))
        if not actions.num_rows or f"max.{column}" not in actions.column_names:
            return None
        found: int | None = pc.max(actions[f"max.{column}"]).as_py()
        return found

    def newest_by(self, name: str, column: str, key: Sequence[str], within: int) -> list[dict[str, object]]:
        """Of a table of averages the row that counts for each key (`newest_first`), among rows whose `column` is at
        most `within` below the largest of all."""
        newest = self.newest(name, column)
        if newest is None:
            return []
        rows = newest_first(self.rows(name, column, above=newest - within), column)
        numbered = rows.append_column("at", pa.array(range(rows.num_rows), pa.int64()))
        first = numbered.group_by(list(key)).aggregate([("at", "min")])["at_min"]
        found: list[dict[str, object]] = rows.take(first).to_pylist()
        return found


def newest_first(rows: pa.Table, column: str) -> pa.Table:
    """Rows of averages, those first that count: of the newest moment that with the most reports, as a late report adds
    a row. Batches say little, because they begin again at 0 with a new checkpoint."""
    return rows.sort_by([(column, "descending"), ("reports", "descending"), ("batch_id", "descending")])


def _hint_at_runs(but: Path | None) -> str:
    """A hint at configuration files of local runs, because most likely --conf was forgotten."""
    runs = [place for place in RUN.glob("*/ballast.yaml") if (place.parent / "tables" / "journal").is_dir()]
    newest_first = sorted(runs, reverse=True)  # their names say when
    known = [place for place in (Path("ballast.yaml"), RUN / "ballast.yaml", *newest_first) if place.is_file()]
    found = [str(place) for place in known if but is None or place.resolve() != but.resolve()]
    return f"; there is {', '.join(found[:3])}" if found else ""
