"""Downloads and unpacks an archive of conf/jars.lock once: `.cache/NAME/` holds the archive and its folder.

The folder appears by a rename when it is complete, with the archive's checksum in it, so an interrupted download or
unpacking is noticed and repeated. Processes that need the same archive at the same time wait for the first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.process.interrupts import LOOK_EVERY_S, check_interrupt
from controller.process.setup_ivy import SetupFailed, fetch_artifacts
from controller.process.setup_lock import LockedArchive, sha256_of

MARK = ".unpacked-from"  # in the unpacked folder: the archive's SHA-256, written last
_TEMPORARY = ".incomplete-"


def find_unpacked(archive: LockedArchive, cache: Path) -> Path | None:
    """The complete unpacked folder of this very archive, or None. Reads no more than its mark."""
    for mark in cache.glob(f"*/{MARK}"):
        if not mark.parent.name.startswith(_TEMPORARY) and mark.read_text().strip() == archive.sha256:
            return mark.parent
    return None


def ensure_unpacked(
    archive: LockedArchive,
    cache: Path,
    say: Callable[[str], None] = print,
    *,
    size: str = "",
    again: str = "the command",
) -> Path:
    """The archive's top folder, downloaded and unpacked under `cache` where it is not yet.

    `say` hears what takes long before it begins; `size` tells the user how much it is, `again` what to repeat. Raises
    SetupFailed if the download fails, has another checksum, or does not unpack into one folder.
    """
    found = find_unpacked(archive, cache)
    if found is not None:
        return found
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache, say):
        found = find_unpacked(archive, cache)  # another process may have been faster
        if found is not None:
            return found
        for left in cache.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(left)
        file = cache / archive.coordinate.file_name
        if file.exists() and sha256_of(file) != archive.sha256:
            say(f"{file} is damaged; it is removed")
            file.unlink()
        if not file.exists():
            say(
                f"downloading {archive.coordinate}{f' ({size})' if size else ''} with Ivy, once; it stays in {cache}."
                " That takes seconds to minutes"
            )
            _download(archive, cache, again)
        say(f"unpacking {file.name} (about 10 s)")
        return _unpack(archive, file, cache)


def _download(archive: LockedArchive, cache: Path, again: str) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix=_TEMPORARY) as temporary:
        staged = fetch_artifacts([archive.coordinate], Path(temporary), again=again) / archive.coordinate.file_name
        if not staged.exists():
            raise SetupFailed(f"{archive.coordinate} was not delivered; run {again} again")
        found = sha256_of(staged)
        if found != archive.sha256:
            raise SetupFailed(
                f"checksum mismatch: {staged.name} as downloaded has sha256 {found}, conf/jars.lock says"
                f" {archive.sha256}. Nothing was installed. Run {again} again; if it stays, the repository delivers"
                " another file"
            )
        staged.rename(cache / staged.name)


def _unpack(archive: LockedArchive, file: Path, cache: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=cache, prefix=_TEMPORARY) as temporary:
        with tarfile.open(file) as packed:
            # Absent in the first releases of Python 3.10 and 3.11. The checksum was verified.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            packed.extractall(temporary)
        folders = list(Path(temporary).iterdir())
        if len(folders) != 1 or not folders[0].is_dir():
            names = ", ".join(sorted(each.name for each in folders)) or "nothing"
            raise SetupFailed(f"{file} holds {names} instead of one folder")
        (folders[0] / MARK).write_text(f"{archive.sha256}\n")
        final = cache / folders[0].name
        if final.exists():  # of another archive, or a folder somebody damaged
            shutil.rmtree(final)
        return folders[0].rename(final)


@contextmanager
def _alone(cache: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the cache's lock, which ends with the process."""
    handle = os.open(cache / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        told = False
        while not _took(handle):
            if not told:
                say(f"waiting for another process that fills {cache}")
                told = True
            check_interrupt()
            time.sleep(LOOK_EVERY_S)
        yield
    finally:
        os.close(handle)


def _took(handle: int) -> bool:
    """Take the lock unless another process has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
