"""Completion in the shell: what a word may become, and the script in a real bash."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller.cli.completion import BASH, FISH, ZSH, candidates_for
from controller.cli.main import COMMANDS, main
from controller.process.paths import ROOT


def test_words_may_become_commands_options_and_choices() -> None:
    assert candidates_for([""]) == list(COMMANDS)
    assert candidates_for(["re"]) == [name for name in COMMANDS if name.startswith("re")]
    assert candidates_for(["quarantine", ""]) == ["--help", "list", "show"]
    assert {"--since", "--rule", "--json"} <= set(candidates_for(["quarantine", "list", "--"]))
    assert candidates_for(["diff", "17900", "--str"]) == ["--strategy"]
    assert candidates_for(["consume", "t/n/x", "--type", ""]) == ["exclusive", "failover", "shared"]
    assert candidates_for(["capture", "--conf", ""]) == [], "a file: the shell knows"
    assert candidates_for(["completion", ""]) == ["--help", "bash", "fish", "zsh"]
    assert candidates_for(["nothing", ""]) == []


@pytest.mark.parametrize(
    ("words", "some", "others"),
    [
        (["mode", ""], ["live", "paused", "shadow"], ["--why"]),
        (["mode", "--why", "calm", "pa"], ["paused"], ["live"]),
        (["mode", "--json", "--"], ["--why"], ["live"]),
        (["mode", "live", ""], ["--why"], ["live"]),
        (["strategy", ""], ["steady", "headroom", "configured"], []),
        (["strategy", "--challengers", ""], ["steady", "headroom"], []),
        (["strategy", "--challengers", "steady,"], ["steady,headroom"], ["steady,steady"]),
        (["plan", "--strategy", ""], ["steady", "headroom"], ["--json"]),
        (["diff", "17900", "--strategy", "ste"], ["steady"], ["headroom"]),
        (["decide", "--strategy", ""], ["steady"], []),
        (["sim", "--strategy", ""], ["steady"], []),
        (["pulsar", "advise", "--strategy", ""], ["steady"], []),
        (["backtest", "--strategies", "steady,head"], ["steady,headroom"], []),
        (["journal", "--kind", "command"], ["command_accepted"], ["offsets"]),
        (["bundles", "--state", ""], ["owned", "retired", "ordered", "unknown"], []),
        (["status", "--profile", ""], ["cluster", "demo", "local"], []),
        (["pulsar", "demo", "--manager", ""], ["extensible", "modular"], []),
        (["pulsar", "dev", "up", "--auth", ""], ["none", "tls", "token"], []),
        (["unload", ""], ["--to"], []),
    ],
)
def test_values_are_completed_where_there_are_choices(words: list[str], some: list[str], others: list[str]) -> None:
    found = candidates_for(words)
    assert set(some) <= set(found)
    assert not set(others) & set(found)


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_the_script_is_printed(shell: str, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert (ended.value.code or 0, capsys.readouterr().out) == (0, script)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["qua"], ["quarantine"]),
        (["quarantine", "sh"], ["show"]),
        (["plan", "--strat"], ["--strategy"]),
        (["mode", "pa"], ["paused"]),
    ],
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "ballast").write_text(f'#!/bin/sh\nexec {sys.executable} -m controller.cli.main "$@"\n')
    (tmp_path / "ballast").chmod(0o755)
    line = " ".join(f"'{word}'" for word in ["ballast", *words])
    script = f"{BASH}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _ballast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "-c", f"PATH={tmp_path}:$PATH\n{script}"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == expected


@pytest.mark.parametrize(("shell", "script"), [("zsh", ZSH), ("fish", FISH)])
def test_the_other_shells_can_read_their_script(shell: str, script: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
