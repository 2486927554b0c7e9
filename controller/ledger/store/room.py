"""A full disk, told before and after a write: which table had no room, where, and what to do.

delta-rs tells of it in the middle of a sentence about Parquet that names no file, and its writer's thread panics, with
a backtrace on stderr for every attempt. So where little is left, a file of that size is tried first: some file systems
do not know how much is free, and of some a part is kept for root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake.exceptions import DeltaError

from controller.domain.errors import BallastError, without_login
from controller.ledger.delta_log import name_table

LEAST_FREE_BYTES = 1024 * 1024  # a commit with its data file takes some 10 KB, one of a mass failover some 100 KB
_FULL = tuple(f"os error {number}" for number in (errno.ENOSPC, errno.EDQUOT))
_PAGE = "docs/operations.md#disk"


class NoRoom(BallastError, DeltaError):
    """Raised when the disk of a table is full: nothing was written, or what was is no part of the table.

    It is an error of delta-rs as well: whoever tries a write again does so with this one, too. `what`: without what to
    do, for those whose tables are not at `tables.root`.
    """

    what = ""


@contextmanager
def writing(uri: str) -> Iterator[None]:
    """Write to the table at this address within. Raises NoRoom for a full disk; other errors are noted to be of the
    table."""
    check_room(uri)
    try:
        with name_table(uri):
            yield
    except (DeltaError, OSError) as error:
        if isinstance(error, NoRoom) or not _tells_full(error):
            raise
        raise _no_room(uri) from None


def check_room(uri: str) -> None:
    """Raise NoRoom if the table is in a folder of this machine whose disk is full."""
    folder = _nearest(uri)
    if folder is None:
        return
    try:
        if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
            _try_to_write(folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(uri) from None
        # anything else is for the write itself to tell


def _try_to_write(folder: Path) -> None:
    """Write as much as has to be free. Raises OSError."""
    probe = folder / f".room-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(LEAST_FREE_BYTES))
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _nearest(uri: str) -> Path | None:
    """The table's folder, or the nearest above it that exists; None in an object store."""
    local = uri.removeprefix("file://")
    if "://" in local:
        return None
    place = Path(local)
    return next((folder for folder in (place, *place.parents) if folder.is_dir()), None)


def _tells_full(error: BaseException) -> bool:
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(each in str(error) for each in _FULL)


def _no_room(uri: str) -> NoRoom:
    folder = _nearest(uri)
    left = ""
    if folder is not None:
        with contextlib.suppress(OSError):
            usage = shutil.disk_usage(folder)
            left = f" ({usage.free // 1024:,} KiB of {usage.total // 1024**2:,} MiB are free)"
    what = f"no room for table {without_login(uri)}: the disk of that folder is full{left}"
    error = NoRoom(f"{what}; make room there, or give tables.root a larger one ({_PAGE})")
    error.what = what
    return error
