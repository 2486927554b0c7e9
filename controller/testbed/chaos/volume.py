"""A small file system for the tables: it can be filled up and made read-only, where this process may mount one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

SIZE_MB = 512
BLOCK = bytes(1 << 20)
TRIES, PAUSE_S = 40, 0.05  # to find a moment in which no file is open for writing


class Volume:
    """Mounted at a folder; `usable` is False where that is not allowed, and then the folder is an ordinary one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.usable = False
        self._filler = folder / ".filler"

    def mount(self) -> None:
        """Mount it, empty, if that is allowed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.usable = _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "ballast-chaos", str(self.folder))

    def unmount(self) -> None:
        """Leave what it holds in the ordinary folder."""
        if not self.usable:
            return
        self.make_writable()
        self.empty()
        beside = self.folder.with_name(f"{self.folder.name}.kept")
        shutil.copytree(self.folder, beside, dirs_exist_ok=True)
        self.usable = not (_run("umount", str(self.folder)) or _run("umount", "--lazy", str(self.folder)))
        if not self.usable:
            self.folder.rmdir()
            beside.rename(self.folder)

    def fill(self) -> None:
        """Leave no space."""
        with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as filler:
            while True:
                filler.write(BLOCK)

    def empty(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)

    def make_read_only(self) -> None:
        """Refuse writes. Raises OSError where no moment without a writer is found."""
        for _ in range(TRIES):
            if _run("mount", "-o", "remount,ro", str(self.folder)):
                return
            time.sleep(PAUSE_S)
        raise OSError(f"{self.folder} could not be made read-only: a file in it is open for writing all the time")

    def make_writable(self) -> None:
        """Take writes again."""
        _run("mount", "-o", "remount,rw", str(self.folder))


def _run(*command: str) -> bool:
    if os.geteuid() != 0 or shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
