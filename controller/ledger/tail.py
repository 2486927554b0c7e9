"""Polls the version of a table: one existence check where nothing is new, and never the table's rows."""

from __future__ import annotations

from controller.ledger.tables import REOPEN_AFTER_VERSIONS, TableRoot


class TableTail:
    """Follows the version of one table. Not thread-safe."""

    def __init__(self, root: TableRoot, name: str) -> None:
        self._root, self._name = root, name
        self._log = root.log(name)
        self._polls = 0
        self.version = -1  # of the newest commit that was seen; -1: no table yet

    def poll(self) -> int:
        """The newest version; -1 before the table exists. Raises DeltaError or OSError: try again later.

        The table itself is opened at first and every REOPEN_AFTER_VERSIONS polls: the files of commits that were missed
        may have been cleaned up.
        """
        if self.version < 0 or self._polls % REOPEN_AFTER_VERSIONS == 0:
            if self._root.exists(self._name):
                self.version = self._root.open(self._name).version()
        else:
            while self._log.exists(self.version + 1):
                self.version += 1
        self._polls += 1
        return self.version
