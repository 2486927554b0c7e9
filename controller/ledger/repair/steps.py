"""The steps of a repair: what each does and loses, in words, and how it is carried out.

`what` is done to `table`; `loses` is `nothing`, or what nobody can restore. `carry_out` raises DeltaError, OSError or
BallastError where it fails; what is done by then stays, and the next plan goes on from there. No step makes a table
look whole that lacks entries. A commit that changes no entry of the journal does not stop a controller.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import CommitProperties, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

import controller
from controller.domain.entries import Entry
from controller.ledger.damage import BATCH, INSTANCE, Action
from controller.ledger.delta_log import HINT, checkpoint_path, commit_path
from controller.ledger.repair.base import Base
from controller.ledger.repair.data_files import Piece, describe_file
from controller.ledger.repair.scratch import Layout, layout_actions, make_checkpoint, make_data_files
from controller.ledger.repair.workshop import Workshop
from controller.ledger.tables import for_table
from schemas.arrow import arrow_table
from schemas.control_tables import CONTROL_STATE
from schemas.journal import JOURNAL

NOTHING = "nothing"
REPAIRED = "ballast.repaired"  # metadata of a commit that a repair made or mended


@dataclass(frozen=True, slots=True)
class CopyTable:
    """Copy a table before it is touched. `files`: its damaged data files."""

    table: str
    what: str
    files: tuple[str, ...]
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Copy it."""
        shop.copy(self.table, [f"{self.table}/{path}" for path in self.files])


@dataclass(frozen=True, slots=True)
class SetAside:
    """Move a table to the copies."""

    table: str
    what: str
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Move it."""
        shop.set_aside(self.table)


@dataclass(frozen=True, slots=True)
class MendCommit:
    """Write a commit's file again: what is left of it, files that it must have added, and entries in a new one."""

    table: str
    what: str
    version: int
    left: tuple[Action, ...]
    layout: Layout
    adopted: tuple[Piece, ...] = ()
    restored: tuple[Entry, ...] = ()
    writer: tuple[str, int, int] | None = None  # instance, batch and last seq of the entries
    creates: bool = False  # protocol and metadata of a new table come in, since those of this one are lost
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Write new files first, then the commit, which makes them part of the table."""
        adds = _bring_in(shop, self.table, self.layout, self.adopted, self.restored)
        info = {"timestamp": shop.now_ms, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
        info |= {"engineInfo": f"ballast:{controller.__version__}", REPAIRED: self.what}
        if self.writer is not None:
            info |= {INSTANCE: self.writer[0], BATCH: self.writer[1], "ballast.seq": self.writer[2]}
        actions: list[Action] = [
            {"commitInfo": info},
            *(layout_actions(self.layout) if self.creates else ()),
            *self.left,
        ]
        actions += [{"add": add} for add in adds]
        if self.writer is not None and not any("txn" in action for action in self.left):
            actions.append({"txn": {"appId": self.writer[0], "version": self.writer[1]}})
        shop.put(self.table, commit_path(self.version), "\n".join(map(json.dumps, actions)).encode())


@dataclass(frozen=True, slots=True)
class RebuildCheckpoint:
    """Write the checkpoint that the commits continue, from the files that the table must have had."""

    table: str
    what: str
    version: int
    layout: Layout
    adopted: tuple[Piece, ...]
    unreadable: tuple[str, ...]  # checkpoints in its place
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Write it, then remove those that cannot be read, then tell where the new one is."""
        actions = [{"add": add} for add in _bring_in(shop, self.table, self.layout, self.adopted, ())]
        shop.put(self.table, checkpoint_path(self.version), make_checkpoint(self.layout, actions))
        shop.delete(self.table, [path for path in self.unreadable if path != checkpoint_path(self.version)])
        hint = {"version": self.version, "size": len(actions) + len(layout_actions(self.layout))}
        shop.put(self.table, HINT, json.dumps(hint).encode())


@dataclass(frozen=True, slots=True)
class DropCheckpoints:
    """Remove checkpoints that cannot be read, where the commits tell everything; write a new one."""

    table: str
    what: str
    unreadable: tuple[str, ...]
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Remove them and the hint at the newest one, which delta-rs writes again."""
        shop.delete(self.table, [*self.unreadable, HINT])
        shop.root.open(self.table).create_checkpoint()


@dataclass(frozen=True, slots=True)
class ReplaceFiles:
    """One commit that takes files out of the table and puts others and restored entries in.

    `continues`: entries beyond the last one come in, which followers have to read; else nothing changes for them.
    """

    table: str
    what: str
    removed: tuple[Action, ...]
    layout: Layout
    adopted: tuple[Piece, ...] = ()
    restored: tuple[Entry, ...] = ()
    continues: bool = False
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Write the new files, then commit. Raises CommitFailedError when somebody else has committed meanwhile."""
        table = shop.root.open(self.table)
        adds = _bring_in(shop, self.table, self.layout, self.adopted, self.restored)
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(add["path"], False, shop.now_ms, add["size"]) for add in self.removed
        ]
        actions += [AddAction(a["path"], a["size"], {}, shop.now_ms, self.continues, a["stats"]) for a in adds]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            commit_properties=CommitProperties(custom_metadata={REPAIRED: self.what}, max_commit_retries=0),
        )


@dataclass(frozen=True, slots=True)
class WriteSnapshots:
    """Create `control_state` again, with the snapshots that can be read."""

    table: str
    what: str
    bases: tuple[Base, ...]
    loses: str = NOTHING

    def carry_out(self, shop: Workshop) -> None:
        """Create the table and write them."""
        shop.root.create(self.table)
        table = shop.root.open(self.table)
        rows = arrow_table(CONTROL_STATE, [base.row for base in self.bases])
        write_deltalake(table, for_table(table, rows), mode="overwrite")


Step = CopyTable | SetAside | MendCommit | RebuildCheckpoint | DropCheckpoints | ReplaceFiles | WriteSnapshots


def _bring_in(
    shop: Workshop, table: str, layout: Layout, adopted: Sequence[Piece], restored: Sequence[Entry]
) -> list[dict[str, Any]]:
    """The `add` of each adopted file, and of the files that it writes for restored entries."""
    adds = [describe_file(shop.root.log(table), piece.path, piece.size_bytes) for piece in adopted]
    if restored:
        rows = arrow_table(JOURNAL, [entry.to_row() for entry in restored])
        for file in make_data_files(layout, rows):
            shop.put(table, file.add["path"], file.content)
            adds.append(dict(file.add))
    return [{**add, "modificationTime": shop.now_ms, "dataChange": True} for add in adds]
