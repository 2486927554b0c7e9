"""The tables of a short run, and commands on them, in this process and without Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.cli.main import main
from tests.short_run import ShortRun, play

NOWHERE = "kafka.bootstrap_servers=127.0.0.1:1"
Ballast = Callable[..., tuple[int, str, str]]
Document = Callable[..., Any]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    return play(tmp_path_factory.mktemp("cli") / "tables")


@pytest.fixture
def ballast(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> Ballast:
    """Runs a command on the run's tables; returns exit code, stdout and stderr."""

    def call(line: str, *more: str) -> tuple[int, str, str]:
        given = [*line.split(), *more, "--set", f"tables.root={run.root.root}", "--set", NOWHERE]
        with pytest.raises(SystemExit) as ended:
            main(given)
        out = capsys.readouterr()
        return int(ended.value.code or 0), out.out, out.err

    return call


@pytest.fixture
def document(ballast: Ballast) -> Document:
    """The one JSON document of a command that must succeed."""

    def call(line: str, *more: str) -> Any:
        code, out, err = ballast(line, *more, "--json")
        assert (code, err) == (0, "")
        assert out.count("\n") == 1
        return json.loads(out)

    return call
