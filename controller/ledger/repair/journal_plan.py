"""Plans how the journal is mended, so that it tells the same state as before.

Entries above the newest base snapshot must all be there afterwards: from files, or from the feed. Older ones are
history, which the snapshot includes; what of it is nowhere is lost and said. If needed entries are nowhere, the journal
cannot be mended: the next controller would number its own entries like those that somebody has acted upon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.domain.state import ClusterState
from controller.ledger.delta_log import LOG, LogGone
from controller.ledger.repair.base import Base
from controller.ledger.repair.data_files import read_entries
from controller.ledger.repair.entries import Found, find_entries
from controller.ledger.repair.examine import Damage, Examined, examine_table
from controller.ledger.repair.heard import Heard
from controller.ledger.repair.runs import Run, intersect, runs_of, runs_text, subtract, unite
from controller.ledger.repair.shares import Share, share_out
from controller.ledger.repair.steps import (
    CopyTable,
    DropCheckpoints,
    MendCommit,
    RebuildCheckpoint,
    ReplaceFiles,
    Step,
)
from controller.ledger.tables import TableRoot
from schemas.journal import JOURNAL

MARK = "journal_repaired"  # the reason of the alarm that stands for lost entries at the journal's end


@dataclass(frozen=True, slots=True)
class JournalPlan:
    """As `plan.Plan`, for the journal alone."""

    damage: tuple[Damage, ...]
    steps: tuple[Step, ...] = ()
    impossible: str = ""
    state: ClusterState | None = None
    notes: tuple[str, ...] = ()


def plan_journal(root: TableRoot, base: Base | None, heard: Heard, told: int, now_ms: int) -> JournalPlan:
    """Look at the journal and plan. `base`: the newest snapshot; `told`: the largest seq that other tables know of."""
    if not root.exists(JOURNAL.name):
        return _plan_without_log(root)
    table = examine_table(root, JOURNAL.name, decode=False)
    at = base.state.seq if base else 0
    found = find_entries(table.log, table.files, table.replayed, table.lying, heard, at, max(told, at))
    needed = intersect(found.lost, [(at + 1, found.newest)] if found.newest > at else [])
    history = subtract(found.lost, needed)
    mark = _mark_end(found, base, now_ms) if not needed else []
    damage = _list_damage(table, found, [*needed, *runs_of([entry.seq for entry in mark])])
    notes = tuple(_notes(found, heard, history))
    if not damage:
        return JournalPlan((), notes=notes)
    if found.doubtful:
        why = (
            f"the commit at its end cannot be read, nor can {found.doubtful}, and nothing on Kafka tells which entries "
            "they held"
        )
        return JournalPlan(damage, impossible=why, notes=notes)
    if needed:
        return JournalPlan(damage, impossible=_why_impossible(needed, found, heard, base), notes=notes)
    restored = [*found.restored, *mark]
    try:
        state = _rehearse(table, found, base, restored)
    except BallastError as error:
        why = f"the entries that can be read do not follow from {_base_text(base)}: {error}"
        return JournalPlan(damage, impossible=why, notes=notes)
    steps = list(_plan_steps(table, found, restored, heard))
    if history:
        loses = f"{runs_text(history)} of the history; {_base_text(base)} includes what they did"
        steps[-1] = replace(steps[-1], loses=loses)
    return JournalPlan(damage, tuple(steps), state=state, notes=notes)


def _plan_without_log(root: TableRoot) -> JournalPlan:
    """No version is left. Version 0 must not come again: a controller that sleeps would go on at its own."""
    try:
        lying = root.log(JOURNAL.name).list_data_files()
    except LogGone:
        lying = {}
    if not lying:
        return JournalPlan(())
    damage = Damage(JOURNAL.name, LOG, f"has no commits, and {len(lying)} data files lie beside it")
    return JournalPlan((damage,), impossible="its log is gone, which tells the order of its files")


def _list_damage(table: Examined, found: Found, needed: Sequence[Run]) -> tuple[Damage, ...]:
    faults = [Damage(table.name, path, what) for path, what in found.faults.items()]
    doubles = [Damage(table.name, path, "holds entries that other files hold, too") for path in found.doubles]
    damage = [*table.log_damage, *faults, *doubles]
    missing = unite(*(p.runs for p in found.adopted), runs_of([e.seq for e in found.restored]), needed)
    if missing and not damage:
        verb = "is" if len(missing) == 1 and missing[0][0] == missing[0][1] else "are"
        damage.append(Damage(table.name, runs_text(missing), f"{verb} missing"))
    return tuple(damage)


def _notes(found: Found, heard: Heard, history: Sequence[Run]) -> Iterator[str]:
    if found.feed_differs is not None:
        yield f"the journal feed has another entry {found.feed_differs} than the table: it is not used"
    elif heard.entries:
        yield f"the journal feed has {runs_text(runs_of(list(heard.entries)))}"
    if history:
        yield f"{runs_text(history)} of the history cannot be restored; a base snapshot includes what they did"


def _why_impossible(needed: Sequence[Run], found: Found, heard: Heard, base: Base | None) -> str:
    told = f" ({heard.newest_from} tells of entry {heard.newest_seq})" if heard.newest_seq == found.newest else ""
    return (
        f"{runs_text(needed)} of {found.newest}{told} cannot be restored: no file and no record of the journal feed "
        f"has them, and {_base_text(base)} does not include them"
    )


def _base_text(base: Base | None) -> str:
    return f"the base snapshot of entry {base.state.seq}" if base else "an empty state (no base snapshot can be read)"


def _mark_end(found: Found, base: Base | None, now_ms: int) -> list[Entry]:
    """An entry for the journal to go on from, where its last ones are lost and only the snapshot includes them.

    It stands at the snapshot's seq. Whoever has read less finds the gap before it, and loads the snapshot.
    """
    present = unite(*(p.runs for p in (*found.kept, *found.adopted)), runs_of([e.seq for e in found.restored]))
    end = max((last for _, last in present), default=0)
    if base is None or end >= base.state.seq:
        return []
    lost = [(end + 1, base.state.seq)]
    data = {"lost": runs_text(lost), "snapshot": base.state.seq}
    return [Entry(base.state.seq, Kind.ALARM, base.state.instance, -1, now_ms, reason=MARK, data=data)]


def _rehearse(table: Examined, found: Found, base: Base | None, restored: Iterable[Entry]) -> ClusterState:
    """The state that the mended journal will tell. Raises BallastError where entries do not follow one another."""
    state = base.state if base else ClusterState()
    above = [(state.seq + 1, found.newest)] if found.newest > state.seq else []
    entries = read_entries(table.log, [piece.path for piece in (*found.kept, *found.adopted)], above)
    entries += [entry for entry in restored if entry.seq > state.seq]
    return fold(state, sorted(entries, key=lambda entry: entry.seq))


def _plan_steps(table: Examined, found: Found, restored: Sequence[Entry], heard: Heard) -> Iterator[Step]:
    name, replayed = table.name, table.replayed
    shares, rest = share_out(table.files, replayed, found.adopted, restored)
    yield CopyTable(name, "copy it", tuple(found.faults))
    for version in replayed.lost:
        file = table.files.commits.get(version)
        share = shares.get(version, Share())
        what = f"write version {version} again{_with(share, heard)}"
        left = file.kept_actions if file else ()
        yield MendCommit(
            name,
            what,
            version,
            left,
            table.layout,
            tuple(share.adopted),
            tuple(share.restored),
            share.writer(file.info if file else {}),
            creates=version == min(replayed.lost) and not replayed.tells_layout,
        )
    if replayed.headless:
        what = f"write checkpoint {replayed.base} again{_with(Share(rest.adopted), heard)}"
        yield RebuildCheckpoint(name, what, replayed.base, table.layout, tuple(rest.adopted), table.lost_checkpoints)
        rest.adopted = []
    elif table.lost_checkpoints or table.files.hint_fault:
        yield DropCheckpoints(name, "remove the damaged checkpoint, write a new one", table.lost_checkpoints)
    gone = [*found.faults, *found.doubles]
    if gone or rest.adopted or rest.restored:
        kept_end = max((piece.last for piece in found.kept), default=0)
        continues = any(p.last > kept_end for p in rest.adopted) or any(e.seq > kept_end for e in rest.restored)
        taken = f"take {', '.join(gone)} out of it" if gone else "commit"
        yield ReplaceFiles(
            name,
            f"{taken}{_with(rest, heard)}",
            tuple(table.add_of(path) for path in gone if path in replayed.active),
            table.layout,
            tuple(rest.adopted),
            tuple(rest.restored),
            continues,
        )


def _with(share: Share, heard: Heard) -> str:
    """What comes in, in words."""
    found = []
    if share.adopted:
        files = share.adopted[0].path if len(share.adopted) == 1 else f"{len(share.adopted)} files that its log lost"
        found.append(f"{runs_text(unite(*(piece.runs for piece in share.adopted)))} of {files}")
    fed = [entry.seq for entry in share.restored if heard.entries.get(entry.seq) == entry]
    marks = [entry.seq for entry in share.restored if entry.reason == MARK]
    other = sorted({entry.seq for entry in share.restored} - {*fed, *marks})
    for seqs, source in ((fed, "from the journal feed"), (other, "from other files")):
        if seqs:
            found.append(f"{runs_text(runs_of(seqs))} {source}")
    if marks:
        found.append(f"an alarm as entry {marks[0]}, from which the journal goes on")
    return f", with {'; '.join(found)}" if found else ""
