"""The tables as one agent reaches them: a folder of hard links that follows the real one until it is cut.

A symbolic link would not do: what has opened a table keeps the path that the link stood for. Of a commit, the data is
there before the log says so, as in the real folder.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

EVERY_S = 0.03
FOLLOWED = ("journal", "control_state")  # all that an agent reads


class Mirror:
    """Follows `source` at `folder` from `start` to `stop`; while it is cut, there is nothing at `folder`."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder = folder
        self._source = source
        self._away = folder.with_name(f"{folder.name}.away")
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="mirror", daemon=True)

    def start(self) -> None:
        """Returns when everything is there once."""
        self._copy_all()
        self._thread.start()

    def stop(self) -> None:
        """Follow no longer."""
        self._stopped.set()
        self._thread.join(10)

    def cut(self) -> None:
        """The tables are gone."""
        with self._lock:
            self.folder.rename(self._away)

    def heal(self) -> None:
        """They are back, and up to date."""
        with self._lock:
            if self._away.exists():
                self._away.rename(self.folder)
        self._copy_all()

    def _follow(self) -> None:
        while not self._stopped.wait(EVERY_S):
            self._copy_all()

    def _copy_all(self) -> None:
        with self._lock:
            if self._away.exists():
                return
            for table in FOLLOWED:
                logged = _files(self._source / table / "_delta_log")
                _make_equal(_files(self._source / table), self.folder / table)
                _make_equal(logged, self.folder / table / "_delta_log")


def _files(folder: Path) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry for entry in found if entry.is_file()}
    except FileNotFoundError:
        return {}


def _make_equal(wanted: dict[str, os.DirEntry[str]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    there = _files(folder)
    for name, entry in wanted.items():
        if name not in there or there[name].inode() != entry.inode():
            beside = folder / f".{name}.link"
            with contextlib.suppress(FileNotFoundError):  # cleaned up meanwhile
                beside.unlink(missing_ok=True)
                os.link(entry.path, beside)
                beside.replace(folder / name)
    for name in there.keys() - wanted.keys():
        if not name.endswith(".link"):
            (folder / name).unlink(missing_ok=True)
