"""An outline of the cluster's state: all of it, but for bundles that nobody asks for, which stay rows of the snapshot.

Making the records of 100,000 bundles takes a command ten times as long as reading their rows, and it shows a few of
them and counts the others. Records are made of bundles that are asked for, that are in flight, and that an entry after
the snapshot names; the fold goes on with these alone. It reads no others: of observed clusters, whose entries name
brokers, everything is decoded.

A snapshot that cannot be read this way is left to `load_state`, which knows what to do, and says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.domain.ownership import IN_FLIGHT, State
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode_document
from controller.ledger.files import retry_on_vacuum
from controller.ledger.journal_rows import entries_since
from controller.ledger.snapshots import NAME, Snapshots, load_state
from controller.ledger.tables import TableRoot, as_root
from schemas.journal import JOURNAL

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, BallastError)  # msgspec's errors are ValueErrors


class BundleRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A bundle in a snapshot; what the fields mean is said at `Ownership`. Fields of newer versions are left out."""

    state: State
    epoch: int = 0
    by: str | None = None
    to: str | None = None
    seq: int = 0
    released: bool = False
    fence: bool = False
    fencer: str | None = None
    boundary: int | None = None
    send_on: bool = False
    cause: str = ""
    ever_owned: bool = False
    moved_at_ms: int = 0
    moving_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """`state`: the whole state, but that its `bundles`, `holdings` and `namespaces` hold no more than what was needed.

    `rest`: every other bundle, none of which is in flight. `namespaces`: how many there are.
    """

    state: ClusterState
    rest: Mapping[str, BundleRow] = field(default_factory=dict)
    namespaces: int = 0

    @classmethod
    def of_state(cls, state: ClusterState) -> Outline:
        """The outline of a state that is known as a whole."""
        return cls(state, {}, len(state.namespaces))


def load_outline(root: TableRoot | str | Path, names: Collection[str] = ()) -> Outline:
    """The outline of the newest state, with records of the bundles of these `names`. Raises as `load_state` does."""
    tables = as_root(root)
    found = None
    if tables.exists(NAME) and tables.exists(JOURNAL.name):
        try:
            found = retry_on_vacuum(lambda: _read(tables, names))
        except _UNREADABLE:
            found = None
    return found if found is not None else Outline.of_state(load_state(tables))


def _read(tables: TableRoot, names: Collection[str]) -> Outline | None:
    """None without a snapshot."""
    snapshot = Snapshots(tables).newest()
    if snapshot is None:
        return None
    seq, text = snapshot
    entries = entries_since(tables.open(JOURNAL.name), tables.log(JOURNAL.name), seq)
    return outline_of(text, entries, names)


def outline_of(text: str | memoryview, entries: Sequence[Entry], names: Iterable[str] = ()) -> Outline:
    """The outline after the entries that follow a snapshot. Raises what decoding it and applying them raises."""
    parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    rows = msgspec.json.decode(parts.pop("bundles"), type=dict[str, BundleRow])
    namespaces = msgspec.json.decode(parts.pop("namespaces"), type=dict[str, msgspec.Raw])
    document = {name: json.loads(bytes(part)) for name, part in parts.items()}
    needed = {*names, *(entry.bundle for entry in entries if entry.bundle is not None)}
    owned = State.OWNED  # nearly all are: to look up a member of an enum takes longer than the rest of the loop
    needed |= {name for name, row in rows.items() if row.state is not owned and row.state in IN_FLIGHT}
    split = {(entry.bundle or "").rpartition("/")[0] for entry in entries if entry.kind is Kind.SPLIT}
    document["bundles"] = {name: _document_of(rows.pop(name)) for name in rows.keys() & needed}
    document["namespaces"] = {name: json.loads(bytes(namespaces[name])) for name in namespaces.keys() & split}
    state = decode_document(document)
    for entry in entries:
        apply_in_place(state, entry)
    return Outline(state, rows, len(namespaces.keys() | state.namespaces.keys()))


def _document_of(row: BundleRow) -> dict[str, Any]:
    """The row as `state_codec` reads it."""
    found: dict[str, Any] = msgspec.to_builtins(row)
    return found
