"""Files of a Delta table as delta-rs itself writes them: made in a scratch table beside, then put where they belong.

delta-rs opens no damaged table, and so writes neither a checkpoint nor a data file into one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from controller.ledger.damage import Action
from controller.ledger.delta_log import DeltaLog, checkpoint_path, commit_path
from controller.ledger.tables import for_table
from schemas.arrow import arrow_schema
from schemas.delta import delta_properties
from schemas.record import Record


class NewFile(NamedTuple):
    """A data file: its `add`, and its content."""

    add: Action
    content: bytes


class Layout(NamedTuple):
    """What a table is: its record, and its `protocol` and `metaData` if its log still tells them."""

    record: Record
    protocol: Action | None
    metadata: Action | None


def make_checkpoint(layout: Layout, actions: Iterable[Action]) -> bytes:
    """A checkpoint with these actions `add` and `txn`, and the table's protocol and metadata."""
    with _scratch(layout) as folder:
        first = Path(folder) / commit_path(0)
        first.write_text("\n".join([first.read_text(), *map(json.dumps, actions)]))
        DeltaTable(folder).create_checkpoint()
        return (Path(folder) / checkpoint_path(0)).read_bytes()


def make_data_files(layout: Layout, rows: pa.Table) -> list[NewFile]:
    """The rows as data files, usually one."""
    with _scratch(layout) as folder:
        table = DeltaTable(folder)
        write_deltalake(table, for_table(table, rows), mode="append")
        added = DeltaLog(folder).read_actions(1)
        adds = [action["add"] for action in added if "add" in action]
        return [NewFile(add, (Path(folder) / add["path"]).read_bytes()) for add in adds]


def layout_actions(layout: Layout) -> Sequence[Action]:
    """The protocol and the metadata: those of the log, else those of a new table."""
    with _scratch(layout) as folder:
        return [a for a in DeltaLog(folder).read_actions(0) if "protocol" in a or "metaData" in a]


@contextmanager
def _scratch(layout: Layout) -> Iterator[str]:
    """A folder with an empty table of this layout."""
    with tempfile.TemporaryDirectory(prefix="ballast-repair-") as folder:
        if layout.protocol is not None and layout.metadata is not None:
            first = Path(folder) / commit_path(0)
            first.parent.mkdir()
            first.write_text("\n".join(map(json.dumps, (layout.protocol, layout.metadata))))
        else:
            schema = arrow_schema(layout.record, comments=True)
            DeltaTable.create(folder, schema, name=layout.record.name, configuration=delta_properties(layout.record))
        yield folder
