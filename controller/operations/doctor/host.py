"""Checks the disks of this machine that tables and checkpoints lie on. An object store has none to check."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from controller.config.settings import Settings
from controller.operations.doctor.finding import Finding, Page, fine, severe, warning
from controller.process.paths import is_address

GIB = 2**30
FULL_FREE, FULL_FREE_BYTES = 0.03, GIB // 2
SCARCE_FREE = 0.10
REMEDY = "make room, or lower the section `retention` and run `ballast maintain`"


def check_disks(settings: Settings) -> Iterator[Finding]:
    """The free space of every disk that a configured folder lies on, once a disk."""
    seen: set[int] = set()
    for name, place in (("tables.root", settings.tables.root), ("tables.checkpoints", settings.tables.checkpoints)):
        folder = None if is_address(place) else _nearest(Path(place))
        if folder is None or folder.stat().st_dev in seen:
            continue
        seen.add(folder.stat().st_dev)
        usage = shutil.disk_usage(folder)
        yield judge_disk(name, str(folder), usage.free, usage.total)


def judge_disk(name: str, folder: str, free_bytes: int, total_bytes: int) -> Finding:
    """One disk. `name`: the key of the folder on it."""
    share = free_bytes / total_bytes if total_bytes else 0.0
    text = f"{free_bytes / GIB:.1f} GiB of {total_bytes / GIB:.0f} GiB ({100 * share:.0f} %) free for {name} ({folder})"
    if share < FULL_FREE or free_bytes < FULL_FREE_BYTES:
        return severe("disk", text, REMEDY, Page.DISK)
    if share < SCARCE_FREE:
        return warning("disk", text, REMEDY, Page.DISK)
    return fine("disk", text)


def _nearest(place: Path) -> Path | None:
    """The folder itself, or the nearest one above it that exists."""
    return next((folder for folder in (place, *place.parents) if folder.is_dir()), None)
