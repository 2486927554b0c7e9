"""The newest checkpoint is known without reading its file again, but never wrongly."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from controller.ledger.delta_log import SETTLED_S, CheckpointHint

SECOND_NS = 1_790_000_000_000_000_000


class Kept:
    """A hint on a file whose times are whole seconds, as in object stores."""

    def __init__(self, folder: Path) -> None:
        self.path, self.now_s, self.reads = folder / "hint", 100.0, 0
        self.hint = CheckpointHint(int, lambda: self.now_s)

    def write(self, version: int, second: int) -> None:
        self.path.write_text(str(version))
        os.utime(self.path, ns=(SECOND_NS, SECOND_NS + second * 10**9))

    def version(self) -> int:
        return self.hint.version(pafs.LocalFileSystem().get_file_info(str(self.path)), self._read)

    def _read(self) -> bytes:
        self.reads += 1
        return self.path.read_bytes()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_what_has_settled_is_not_read_again(kept: Kept) -> None:
    kept.write(17, second=0)
    assert kept.version() == 17
    kept.now_s += SETTLED_S
    assert [kept.version() for _ in range(5)] == [17] * 5
    assert kept.reads == 2
    kept.write(18, second=1)
    assert (kept.version(), kept.reads) == (18, 3)


def test_a_file_replaced_within_its_second_is_seen(kept: Kept) -> None:
    """Same time, same size."""
    kept.write(17, second=0)
    assert kept.version() == 17
    kept.now_s += 0.5
    kept.write(18, second=0)
    assert kept.version() == 18
    kept.now_s += SETTLED_S
    assert kept.version() == 18


def test_without_a_file_or_with_a_damaged_one_nothing_is_remembered(kept: Kept) -> None:
    assert kept.version() == -1
    kept.write(17, second=0)
    assert kept.version() == 17
    kept.now_s += SETTLED_S
    assert kept.version() == 17
    kept.path.unlink()
    assert kept.version() == -1
    kept.path.write_text("half")
    for _ in range(2):
        with pytest.raises(ValueError, match="half"):
            kept.version()
        kept.now_s += SETTLED_S
    kept.write(19, second=0)
    assert kept.version() == 19
