"""What the README tells a newcomer to type exists and works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from controller.cli.main import COMMANDS, main
from controller.process.paths import ROOT
from controller.sim.field.scenarios import SEVEN

README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
CALL = re.compile(r"(?:^|[`\s])(?:\.venv/bin/)?ballast +([a-z][a-z-]*)")
PULSARS = ("threshold", "overload", "uniform", "average", "transfer", "simple")
HELP_LINE = re.compile(r"^  make ([a-z0-9-]+) +\S", re.MULTILINE)


def typed(text: str) -> list[str]:
    """The commands of fenced console blocks; a line that ends with a backslash goes on."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def mentioned(text: str) -> set[str]:
    """COMMAND of every `ballast COMMAND` in code spans and fenced blocks."""
    code = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
    return {found[1] for part in code for found in CALL.finditer(part)}


def targets() -> set[str]:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return set(HELP_LINE.findall(done.stdout))


def test_make_alone_says_what_there_is() -> None:
    alone = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert set(HELP_LINE.findall(alone.stdout)) == targets()
    assert targets() >= {"help", "setup", "demo", "test", "lint", "bench", "clean"}


def test_the_readme_begins_with_two_commands() -> None:
    assert typed(README)[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("command", typed(README))
def test_commands_in_console_blocks_can_be_run(command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert set(arguments) <= targets()
        subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, timeout=60, check=True)
        return
    assert Path(program).name == "ballast"
    with pytest.raises(SystemExit) as ended:
        main([arguments[0], "--help"])
    assert ended.value.code == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_mention_only_commands_that_exist(page: Path) -> None:
    assert mentioned(page.read_text()) - COMMANDS.keys() == set()


@pytest.mark.parametrize("command", sorted(mentioned(README)))
def test_commands_of_the_readme_explain_themselves(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code in (0, None)
    shown = capsys.readouterr().out
    assert f"ballast {command}" in shown
    assert "--help" in shown


def test_links_of_the_readme_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_screen_says_what_works_with_pulsar_and_what_does_not_yet() -> None:
    first_screen = README[: README.index("## ")]
    assert len(first_screen.splitlines()) <= 50
    assert "**Preview:** `ballast agent --runtime pulsar`" in first_screen
    assert mentioned(first_screen) >= {"pulsar", "replay-reports", "backtest", "decide", "agent"}


def test_the_field_bears_out_what_the_readme_says_of_it() -> None:
    """Nearer to the best achievable than all of Pulsar's strategies; whether greedy does better."""
    figures = json.loads((ROOT / "benchmarks" / "results" / "strategy_field.json").read_text())["figures"]
    for scenario in SEVEN:
        row = figures["scenarios"][scenario]
        assert row["steady"]["mean"] < min(row[name]["mean"] for name in PULSARS), scenario
    steady, greedy = figures["seven"]["steady"], figures["seven"]["greedy"]
    beaten = steady["mean"] > greedy["mean"] or steady["moves"] > greedy["moves"]
    assert ("thirty lines of greedy code do better" in README) == beaten
