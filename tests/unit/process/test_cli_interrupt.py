"""Ctrl-C while a command's modules are still being imported ends it as later on: exit code 130, no traceback."""

from __future__ import annotations

import pytest

from controller.cli import main as cli


def test_an_interrupt_among_imports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.importlib, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "anything"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""
