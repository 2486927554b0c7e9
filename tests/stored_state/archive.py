"""The files of `tests/data/state_*`: a live run as one archive, stored rounds as JSON lines; both compressed with xz.

Invariant: what is packed twice from the same files is the same archive (names sorted, no owners, no times).
"""

from __future__ import annotations

import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LIVE_RUN, ROUNDS = "live_run.tar.xz", "rounds.jsonl.xz"
LIVE_PARTS = ("tables", "checkpoints", "kafka/data", "ballast.yaml")
PRESET = 9 | lzma.PRESET_EXTREME
LEFT_OUT = (".crc", ".lock", "recovery-point-offset-checkpoint.tmp")


def pack_live(folder: Path, archive: Path) -> None:
    """The parts of a run that a next version starts on."""
    with tarfile.open(archive, "w:xz", preset=PRESET) as tar:
        for part in LIVE_PARTS:
            for path in sorted([folder / part, *(folder / part).rglob("*")]):
                if not path.name.endswith(LEFT_OUT):
                    tar.add(path, str(path.relative_to(folder)), recursive=False, filter=_plain)


def unpack_live(archive: Path, folder: Path) -> Path:
    """A copy of the run, in which anything may be done; returns its folder."""
    with tarfile.open(archive, "r:xz") as tar:
        extract_all(tar, folder)
    return folder


def extract_all(tar: tarfile.TarFile, folder: Path) -> None:
    """Unpack files of our own. Python before 3.11.4, as in Debian 12, has no filters, later ones warn without one."""
    tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
    tar.extractall(folder)


def write_rounds(rounds: Iterable[Mapping[str, Any]], archive: Path) -> int:
    """One line a round; returns how many."""
    lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rounds]
    archive.write_bytes(lzma.compress("".join(line + "\n" for line in lines).encode(), preset=PRESET))
    return len(lines)


def read_rounds(archive: Path) -> Iterator[dict[str, Any]]:
    """The rows that `write_rounds` wrote."""
    with lzma.open(archive, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.isdir() else 0o644
    return info
