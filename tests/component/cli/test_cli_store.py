"""`ballast store` starts the store with the durability that is configured."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.run import store


@pytest.mark.parametrize(
    ("options", "flushes"),
    [
        ([], False),
        (["--fsync"], True),
        (["--set", "store.fsync=true"], True),
        (["--set", "store.fsync=true", "--no-fsync"], False),
    ],
)
def test_fsync_is_taken_from_the_option_then_from_the_configuration(
    options: list[str], flushes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(store, "serve", started.append)
    ended = CliRunner().invoke(store.app, ["--data-dir", str(tmp_path / "store"), "--port", "0", *options])
    assert ended.exit_code == 0, ended.output
    assert ["--fsync" in argv for argv in started] == [flushes]
