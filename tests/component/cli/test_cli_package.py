"""`ballast package` where the disk is full."""

from __future__ import annotations

import errno
import zipfile
from pathlib import Path

import pytest

from controller.cli.main import main


def test_a_full_disk_is_told_with_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    place = tmp_path / "code.zip"
    with pytest.raises(SystemExit) as ended:
        main(["package", str(place)])
    assert ended.value.code == 1
    told = f"ballast: cannot write {place}: No space left on device; make room there, or give another file\n"
    assert capsys.readouterr().err == told
    assert list(tmp_path.iterdir()) == []
