"""What is wrong with the files of one table: those that its newest version needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.ledger.damage import Action
from controller.ledger.delta_log import HINT, DeltaLog, checkpoint_path, commit_path
from controller.ledger.files import retry_on_vacuum
from controller.ledger.repair.data_files import find_faults
from controller.ledger.repair.scratch import Layout
from controller.ledger.repair.table_log import Replay, TableLog, read_table_log, replay
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged file, its path below the table's folder, and the rest of a sentence about it."""

    table: str
    file: str
    what: str


@dataclass(frozen=True, slots=True)
class Examined:
    """A table as it lies in the store. `lying`: its data files and their sizes; `faults`: of data files, by path."""

    name: str
    log: DeltaLog
    files: TableLog
    replayed: Replay
    lying: Mapping[str, int]
    faults: Mapping[str, str]

    @property
    def layout(self) -> Layout:
        """What the table is."""
        return Layout(TABLES[self.name], self.replayed.protocol, self.replayed.metadata)

    @property
    def lost_checkpoints(self) -> tuple[str, ...]:
        """Checkpoints that cannot be read, and are needed or in the way of those that can."""
        lost = [v for v, file in self.files.checkpoints.items() if file.fault and v > self._last_whole_checkpoint]
        return tuple(map(checkpoint_path, lost))

    @property
    def _last_whole_checkpoint(self) -> int:
        return max((v for v, file in self.files.checkpoints.items() if not file.fault), default=-1)

    @property
    def log_damage(self) -> list[Damage]:
        """The damaged files of the log."""
        found = [(path, self.files.checkpoints[int(path[-39:-19])].fault) for path in self.lost_checkpoints]
        for version in self.replayed.lost:
            file = self.files.commits.get(version)
            found.append((commit_path(version), file.fault if file else "is missing"))
        if self.files.hint_fault and not found:
            found.append((HINT, self.files.hint_fault))
        return [Damage(self.name, path, what) for path, what in found]

    @property
    def damage(self) -> list[Damage]:
        """All damaged files."""
        return [*self.log_damage, *(Damage(self.name, path, what) for path, what in self.faults.items())]

    def add_of(self, path: str) -> Action:
        """What the log says of a file of the newest version."""
        return self.replayed.active[path]


def examine_table(root: TableRoot, name: str, *, decode: bool) -> Examined:
    """Look at a table's files; `decode`: read its data files whole.

    Raises DeltaError or OSError when the store does not answer.
    """
    log = root.log(name)

    def examine() -> Examined:
        files = read_table_log(log)
        replayed, lying = replay(files), log.list_data_files()
        return Examined(name, log, files, replayed, lying, find_faults(log, replayed.active, lying, decode=decode))

    return retry_on_vacuum(examine)
