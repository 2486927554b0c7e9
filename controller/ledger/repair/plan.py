"""Plans how damaged tables are mended: what is damaged, the steps, and the state that the journal will tell.

The journal is mended entry by entry (`journal_plan`). Base snapshots are gathered from all files that have some.
Projections and the usage model are set aside, since their writers make them again. Of all other tables the rows that
can be read are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from controller.domain.state import ClusterState
from controller.ledger.damage import DamagedTable
from controller.ledger.repair.base import Base, read_bases
from controller.ledger.repair.data_files import seqs_of
from controller.ledger.repair.examine import Damage, Examined, examine_table
from controller.ledger.repair.heard import NOTHING as NOTHING_HEARD
from controller.ledger.repair.heard import Heard
from controller.ledger.repair.journal_plan import JournalPlan, plan_journal
from controller.ledger.repair.missing import Missing, find_missing
from controller.ledger.repair.remade import FOLDS, REMADE
from controller.ledger.repair.steps import (
    NOTHING,
    CopyTable,
    DropCheckpoints,
    MendCommit,
    ReplaceFiles,
    SetAside,
    Step,
    WriteSnapshots,
)
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES
from schemas.control_tables import CONTROL_STATE
from schemas.journal import JOURNAL
from schemas.record import TableOptions

OF_THE_JOURNAL = (JOURNAL.name, CONTROL_STATE.name, *FOLDS)  # a new journal begins without any of them


@dataclass(frozen=True, slots=True)
class Plan:
    """`damage`: all that is damaged. `missing`: tables that no step can bring back. `steps`: in order. `notes`: for
    people.

    `impossible`: why the journal cannot be mended, empty if it can; then only a new journal helps, and the steps leave
    the old one alone unless that was asked for (`new_journal`). `state`: what the journal tells afterwards; None if it
    is not damaged, or lost.
    """

    damage: tuple[Damage, ...]
    steps: tuple[Step, ...]
    impossible: str = ""
    new_journal: bool = False
    state: ClusterState | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()


def make_plan(
    root: TableRoot,
    heard: Heard = NOTHING_HEARD,
    *,
    only: Collection[str] = (),
    new_journal: bool = False,
    now_ms: int = 0,
) -> Plan:
    """Look at the tables and plan; changes nothing. `only`: these tables, whose data files are then read whole, as
    those of the controller's own tables are in any case. `now_ms`: wall-clock time.

    Raises DeltaError or OSError when the store does not answer.
    """
    there = [name for name in TABLES if name != JOURNAL.name and root.exists(name)]
    examined = {name: examine_table(root, name, decode=_is_read_whole(name, only)) for name in there}
    bases = _find_bases(examined.get(CONTROL_STATE.name))
    told = max((_largest_seq(examined[name]) for name in (*FOLDS, CONTROL_STATE.name) if name in examined), default=0)
    journal = None
    if not only or JOURNAL.name in only:
        journal = plan_journal(root, bases[-1] if bases else None, heard, told, now_ms)
    others = [examined[name] for name in there if not only or name in only]
    damage = [*(journal.damage if journal else ()), *(each for table in others for each in table.damage)]
    impossible = journal.impossible if journal else ""
    if impossible:
        aside = [name for name in OF_THE_JOURNAL if name == JOURNAL.name or root.exists(name)] if new_journal else []
        others = [table for table in others if table.name not in OF_THE_JOURNAL]
        steps = [_set_old_journal_aside(name) for name in aside]
    else:
        steps = list(journal.steps) if journal else []
    steps += [step for table in others if table.damage for step in _plan_other(table, bases)]
    return Plan(
        tuple(damage),
        tuple(steps),
        impossible,
        bool(impossible and new_journal),
        journal.state if journal else None,
        journal.notes if journal else (),
        () if impossible else _find_missing(root, journal, only),
    )


def _find_missing(root: TableRoot, journal: JournalPlan | None, only: Collection[str]) -> tuple[Missing, ...]:
    """The missing tables, by what the journal tells, or will tell once it is mended."""
    try:
        state = journal.state if journal is not None and journal.state is not None else load_state(root)
    except DamagedTable:
        return ()  # of a journal that was not looked at
    return tuple(find_missing(root, state, only))


def _is_read_whole(name: str, only: Collection[str]) -> bool:
    return name in only or (TABLES[name].table or TableOptions()).tended_by_writer


def _find_bases(table: Examined | None) -> list[Base]:
    """The snapshots that can be read: those in the table, or in any file where the table is damaged."""
    if table is None:
        return []
    return read_bases(table.log, table.lying if table.damage else table.replayed.active)


def _largest_seq(table: Examined) -> int:
    found: Iterable[tuple[int, int] | None] = (seqs_of(add) for add in table.replayed.named.values() if add)
    return max((run[1] for run in found if run), default=0)


def _plan_other(table: Examined, bases: list[Base]) -> Iterator[Step]:
    if table.name == CONTROL_STATE.name:
        having = (
            f"with the snapshots that can be read, of entries {', '.join(str(base.state.seq) for base in bases)}"
            if bases
            else "without a snapshot, since none can be read: the next start reads the journal from its first entry"
        )
        yield SetAside(table.name, "move it to the copies")
        yield WriteSnapshots(table.name, f"create it again {having}", tuple(bases))
    elif table.name in REMADE:
        yield SetAside(table.name, f"move it to the copies: {REMADE[table.name]}")
    else:
        yield from _keep_what_can_be_read(table)


def _keep_what_can_be_read(table: Examined) -> Iterator[Step]:
    """A table of rows that nobody can write again."""
    if table.replayed.headless or (table.replayed.lost and table.replayed.strangers):
        what = "move it to the copies: nothing tells which of its files belong together; the next start creates it"
        yield SetAside(table.name, what, loses="its rows, of which the copies hold what can be read")
        return
    yield CopyTable(table.name, "copy it", tuple(table.faults))
    for version in table.replayed.lost:
        file = table.files.commits.get(version)
        left = file.kept_actions if file else ()
        loses = NOTHING if any("add" in action for action in left) else "the rows of that commit, if it added any"
        what = f"write version {version} again with what is left of it"
        creates = version == min(table.replayed.lost) and not table.replayed.tells_layout
        yield MendCommit(table.name, what, version, left, table.layout, creates=creates, loses=loses)
    if table.lost_checkpoints or table.files.hint_fault:
        yield DropCheckpoints(table.name, "remove the damaged checkpoint, write a new one", table.lost_checkpoints)
    if table.faults:
        yield ReplaceFiles(
            table.name,
            f"take {_files_text(len(table.faults))} out of it",
            tuple(table.add_of(path) for path in table.faults),
            table.layout,
            loses="the rows in " + ", ".join(table.faults),
        )


def _files_text(count: int) -> str:
    return "the damaged file" if count == 1 else f"{count} damaged files"


def _set_old_journal_aside(name: str) -> Step:
    loses = "the old journal: its copy tells what it was" if name == JOURNAL.name else NOTHING
    return SetAside(name, "move it to the copies, for a new journal to begin", loses)
