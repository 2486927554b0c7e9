"""Files of the journal that no readable commit has put into the table, and which of them are believed.

Such a file may be one of a commit that was lost, or the attempt of a controller whose commit failed, so that its
entries never counted. It is believed if

- a commit names it after all, or what is left of a damaged one;
- it holds entries of several batches: only merging and expiring make such files, of what was committed;
- the feed has the same entries, which are published after their commit;
- its writer went on after it: a controller's next commit follows only its own last one, with the entries as given;
- or it is the only file with these entries, and no file is unreadable that may have held others.

Entries beyond the end are believed only where a commit at the end was lost. If they had never counted, committing them
now is as if the controller had died right after its commit: nobody else has committed any since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.domain.entries import Entry
from controller.ledger.delta_log import DeltaLog
from controller.ledger.repair.data_files import Piece, read_entries, read_pieces
from controller.ledger.repair.heard import Heard
from controller.ledger.repair.runs import Run, intersect, numbers_in, subtract, unite
from controller.ledger.repair.table_log import Replay, TableLog


class Strays:
    """Reads them all. `whole`: files that are believed and wanted whole; `parts`: entries wanted of other such files.

    `doubtful`: a file that cannot be read and may have held any entries; empty if there is none.
    """

    def __init__(
        self,
        log: DeltaLog,
        files: TableLog,
        replayed: Replay,
        lying: Mapping[str, int],
        kept: Sequence[Piece],
        feed: Heard,
    ) -> None:
        """`kept`: the readable files of the table."""
        self._log, self._kept, self._feed = log, kept, feed
        remains = b"".join(file.text for file in files.commits.values())
        paths = [path for path in lying if path not in replayed.active]
        named = {path for path in paths if path in replayed.named or path.encode() in remains}
        self._pieces, unreadable = read_pieces(log, paths, lying, named)
        self.doubtful = min(set(unreadable) - set(replayed.named), default="")
        self.whole: list[Piece] = []
        self.parts: list[Entry] = []
        self._believed: list[Piece] = []

    @property
    def first(self) -> int | None:
        """The smallest seq in any of them."""
        return min((piece.first for piece in self._pieces), default=None)

    @property
    def runs(self) -> list[Run]:
        """The entries of `whole` and `parts`."""
        return unite(*(piece.runs for piece in self.whole), ((entry.seq, entry.seq) for entry in self.parts))

    def look_for(self, missing: Sequence[Run]) -> None:
        """Choose files for what is missing: from the end on, since a believed file shows who went on, larger ones
        first, since a merged file stands for many."""
        for piece in sorted(self._pieces, key=lambda piece: (-piece.last, piece.first)):
            wanted = subtract(intersect(piece.runs, missing), self.runs)
            if wanted and self._is_believed(piece, wanted):
                self._take(piece, wanted)

    def continue_end(self, end: int, commits: int) -> None:
        """Choose files that continue the journal beyond `end`, for at most so many lost commits."""
        for _ in range(commits):
            end = max([end, *(last for _, last in self.runs)])
            following = [p for p in self._pieces if p.first == end + 1 and not self._contradicts_feed(p)]
            if not following or not self._is_alone(following[0], following[0].runs):
                return
            self._take(following[0], following[0].runs)

    def _take(self, piece: Piece, wanted: Sequence[Run]) -> None:
        self._believed.append(piece)
        if list(piece.runs) == list(wanted):
            self.whole.append(piece)
        else:
            self.parts += read_entries(self._log, [piece.path], wanted)

    def _is_believed(self, piece: Piece, wanted: Sequence[Run]) -> bool:
        return not self._contradicts_feed(piece) and (
            piece.named
            or len(piece.writers) > 1
            or self._is_in_feed(piece, wanted)
            or self._is_followed(piece)
            or self._is_alone(piece, wanted)
        )

    def _contradicts_feed(self, piece: Piece) -> bool:
        known = [run for run in piece.runs if any(seq in self._feed.entries for seq in numbers_in([run]))]
        found = read_entries(self._log, [piece.path], known)
        return any(self._feed.entries.get(entry.seq, entry) != entry for entry in found)

    def _is_in_feed(self, piece: Piece, wanted: Sequence[Run]) -> bool:
        found = read_entries(self._log, [piece.path], wanted)
        return all(self._feed.entries.get(entry.seq) == entry for entry in found)

    def _is_followed(self, piece: Piece) -> bool:
        """Whether the entry after the file's is a later one of its own writer."""
        after = [(piece.last + 1, piece.last + 1)]
        holders = [p.path for p in (*self._kept, *self._believed) if intersect(p.runs, after)]
        instance, batch = next(iter(piece.writers))
        return any(e.instance == instance and e.batch > batch for e in read_entries(self._log, holders, after))

    def _is_alone(self, piece: Piece, wanted: Sequence[Run]) -> bool:
        """Whether no other file has, or may have had, other entries with these numbers."""
        if self.doubtful:
            return False
        for rival in self._pieces:
            shared = intersect(rival.runs, wanted)
            if shared and read_entries(self._log, [rival.path], shared) != read_entries(
                self._log, [piece.path], shared
            ):
                return False
        return True
