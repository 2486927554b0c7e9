"""Where each entry of the journal still is: in the table, in files that its log lost, or in the feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.domain.entries import Entry
from controller.ledger.damage import find_size_fault
from controller.ledger.delta_log import DeltaLog
from controller.ledger.repair.data_files import Piece, read_entries, read_pieces, seqs_of
from controller.ledger.repair.heard import Heard
from controller.ledger.repair.runs import Run, intersect, subtract, unite
from controller.ledger.repair.strays import Strays
from controller.ledger.repair.table_log import Replay, TableLog


@dataclass(frozen=True, slots=True)
class Found:
    """The journal's entries by where they are.

    `kept`: files in the table that can be read; `faults`: what is wrong with the others, by path. `adopted`: files to
    be put back. `restored`: entries to be written again. `lost`: those that are nowhere. `doubles`: files in the table
    whose entries others have as well. `newest`: the largest seq that anything tells of. `feed_differs`: where the feed
    contradicts the table, or itself, and so is not used. `doubtful`: an unreadable file that may hold entries beyond
    the end, of which nothing tells; empty if there is none.
    """

    kept: tuple[Piece, ...]
    faults: dict[str, str]
    adopted: tuple[Piece, ...]
    restored: tuple[Entry, ...]
    lost: tuple[Run, ...]
    doubles: tuple[str, ...]
    newest: int
    feed_differs: int | None
    doubtful: str


def find_entries(
    log: DeltaLog, files: TableLog, replayed: Replay, lying: Mapping[str, int], heard: Heard, base: int, told: int
) -> Found:
    """Look for every entry. `lying`: the table's data files and their sizes; `base`: the newest snapshot's seq; `told`:
    the largest seq that other tables know of. Raises DeltaError or OSError when the store does not answer."""
    faults = {
        path: fault for path, add in replayed.active.items() if (fault := find_size_fault(path, add["size"], lying))
    }
    kept, unreadable = read_pieces(log, [p for p in replayed.active if p not in faults], lying, replayed.active)
    have = unite(*(piece.runs for piece in kept))
    end = max((last for _, last in have), default=0)
    newest = max(told, heard.newest_seq, end, *_ends(files, replayed), 0)
    begins = [base + 1, *(run[0] for run in (*have, *map(seqs_of, replayed.active.values())) if run)]
    differs = _first_difference(log, kept, heard)
    feed = heard if differs is None else Heard()
    whole: list[Piece] = []
    restored: list[Entry] = []
    lost, doubtful = subtract(_span(min(begins), newest), have), ""
    if lost or replayed.lost or replayed.headless:
        strays = Strays(log, files, replayed, lying, kept, feed)
        if replayed.headless and strays.first is not None:
            begins.append(strays.first)  # nothing else tells where it began
        strays.look_for(subtract(_span(min(begins), newest), have))
        lost_at_end = _lost_at_end(files, replayed)
        strays.continue_end(end, lost_at_end)
        newest = max([newest, *(last for _, last in strays.runs)])
        missing = subtract(_span(min(begins), newest), unite(have, strays.runs))
        fed = [entry for seq, entry in feed.entries.items() if intersect([(seq, seq)], missing)]
        whole, restored = strays.whole, [*strays.parts, *fed]
        lost = subtract(missing, [(entry.seq, entry.seq) for entry in fed])
        doubtful = strays.doubtful if lost_at_end and not heard.newest_seq else ""
    return Found(
        kept=tuple(kept),
        faults=faults | unreadable,
        adopted=tuple(sorted(whole, key=lambda piece: piece.first)),
        restored=tuple(sorted(restored, key=lambda entry: entry.seq)),
        lost=tuple(lost),
        doubles=_doubles(kept),
        newest=newest,
        feed_differs=differs,
        doubtful=doubtful,
    )


def _span(first: int, last: int) -> list[Run]:
    return [(first, last)] if first <= last else []


def _ends(files: TableLog, replayed: Replay) -> Iterable[int]:
    """Every seq up to which the log says that there are entries, also in commits that are damaged."""
    yield from (run[1] for add in replayed.named.values() if add and (run := seqs_of(add)))
    yield from (int(file.info["ballast.seq"]) for file in files.commits.values() if "ballast.seq" in file.info)


def _first_difference(log: DeltaLog, kept: Sequence[Piece], heard: Heard) -> int | None:
    """The first seq at which the feed and the table have different entries."""
    if heard.contradictory:
        return min(heard.contradictory)
    told = _span(min(heard.entries), max(heard.entries)) if heard.entries else []
    paths = [piece.path for piece in kept if intersect(piece.runs, told)]
    return next((e.seq for e in read_entries(log, paths, told) if heard.entries.get(e.seq, e) != e), None)


def _lost_at_end(files: TableLog, replayed: Replay) -> int:
    """How many commits are lost after the last one that added entries."""
    adding = [v for v, file in files.commits.items() if not file.fault and "ballast.seq" in file.info]
    return sum(version > max(adding, default=-1) for version in replayed.lost)


def _doubles(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """The files of which every entry is in others as well, smallest first, so that merged files stay."""
    left = sorted(pieces, key=lambda piece: sum(last - first for first, last in piece.runs))
    if sum(last - first + 1 for p in left for first, last in p.runs) == sum(
        last - first + 1 for first, last in unite(*(piece.runs for piece in left))
    ):
        return ()
    doubles: list[str] = []
    for piece in list(left):
        others = [other for other in left if other.path != piece.path]
        if others and not subtract(piece.runs, unite(*(other.runs for other in others))):
            left, doubles = others, [*doubles, piece.path]
    return tuple(doubles)
