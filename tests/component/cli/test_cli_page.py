"""docs/cli.md: every command is there, and every example uses options that exist."""

from __future__ import annotations

import re
import shlex

import pytest

from controller.cli.main import COMMANDS, main
from controller.process.paths import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()
GROUPS = ("namespace", "topic", "config", "kafka", "override", "pulsar", "quarantine")
GROUPS_WITHIN = ("dev",)


def examples() -> list[list[str]]:
    """The words after `ballast` of every example in a code block."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S):
        lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ballast ")]
        found += [shlex.split(line.split("|")[0])[1:] for line in lines]
    return found


def test_every_command_has_its_line() -> None:
    assert [name for name in COMMANDS if f"`ballast {name}" not in PAGE] == []


def test_there_are_examples() -> None:
    assert {words[0] for words in examples()} >= {"status", "decisions", "explain", "unload", "split", "drain", "mode"}


@pytest.mark.parametrize("words", examples(), ids=" ".join)
def test_examples_use_what_exists(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    depth = 1 + (words[0] in GROUPS) + (words[0] == "pulsar" and words[1] in GROUPS_WITHIN)
    command = words[:depth]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    for option in (word.split("=")[0] for word in words if word.startswith("--")):
        assert option in out, f"{' '.join(words)}: {option}"
