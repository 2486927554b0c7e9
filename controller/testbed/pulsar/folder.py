"""The folder of a cluster: one process at a time starts or stops what is in it, and `wipe` removes no foreign file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.testbed.pulsar.spec import SPEC_FILE, PulsarFailed

# What a cluster's folder holds besides its spec and the lock.
PARTS = ("conf", "data", "logs", "pids", "tmp", "credentials")
_LOCK_FILE = ".lock"


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; without a cluster in it, the folder is gone afterwards unless it has other files.

    Raises PulsarFailed while another process starts or stops the cluster.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PulsarFailed(
                f"another process is starting or stopping the cluster in {folder}: wait for it, or end it"
            ) from None
        try:
            yield
        finally:
            if not (folder / SPEC_FILE).exists():
                (folder / _LOCK_FILE).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    folder.rmdir()
    finally:
        os.close(handle)


def make_parts(folder: Path) -> None:
    """Make the sub-folders that every cluster has; those with secrets and temporary files come when needed."""
    for part in PARTS[:4]:
        (folder / part).mkdir(parents=True, exist_ok=True)


def wipe(folder: Path) -> None:
    """Remove what the cluster made."""
    for part in PARTS:
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / SPEC_FILE).unlink(missing_ok=True)
