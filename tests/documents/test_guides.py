"""Quick start, concepts, comparison and guides: what they tell people to type can be typed, what they show is true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from controller.cli.main import main
from controller.config.load import load_settings
from controller.process.paths import ROOT
from tests.documents.test_demo_readme import targets, typed

DOCS = ROOT / "docs"
PAGES = [DOCS / f"{name}.md" for name in ("quick_start", "concepts", "comparison")]
PAGES += sorted((DOCS / "guides").glob("*.md"))
COUNTERS = DOCS / "examples" / "counters" / "ballast_counters.py"
COMMANDS = sorted({command for page in PAGES for command in typed(page.read_text())})


def shown(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def names_of_options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_to_be_typed_exists_with_its_options(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *words = shlex.split(command)
    if program == "make":
        assert {word for word in words if "=" not in word} <= targets()
    elif program == "python":
        assert (ROOT / words[0]).exists()
    elif program == "curl":
        assert "127.0.0.1" in command
    else:
        assert program == "ballast"
        monkeypatch.setenv("COLUMNS", "250")  # no option is cut off
        names = [word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)][:2]
        with pytest.raises(SystemExit) as ended:
            main([*names, "--help"])
        assert ended.value.code in (0, None), command
        assert names_of_options(words) <= set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_configuration_that_is_shown_loads(page: Path, tmp_path: Path) -> None:
    for text in shown(page, "yaml"):
        assert yaml.safe_load(text)
        file = tmp_path / "ballast.yaml"
        file.write_text(text)
        load_settings(file, env={})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_read_in_minutes(page: Path) -> None:
    code = sum(len(block.splitlines()) for block in shown(page, "python"))
    assert len(page.read_text().splitlines()) - code <= 120


def test_the_quick_start_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = DOCS / "quick_start.md"
    command = next(line for line in typed(page.read_text()) if line.startswith("ballast pulsar advise "))
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command.replace("tests/data", str(ROOT / "tests" / "data")))[1:])
    assert not ended.value.code
    printed = capsys.readouterr().out
    (block,) = shown(page, "text")
    assert block.rstrip() in printed


def test_the_guide_shows_the_tested_service_whole() -> None:
    (code,) = shown(DOCS / "guides" / "sharded_service.md", "python")
    assert code == COUNTERS.read_text()
    assert len(code.splitlines()) <= 150


def test_the_guide_names_every_method_of_the_protocol() -> None:
    text = (ROOT / "controller" / "brokers" / "runtime.py").read_text()
    protocol = text[text.index("class BrokerRuntime") :]
    methods = set(re.findall(r"def (\w+)\(", protocol)) - {"start", "stop", "reopen", "data_address"}
    told = set(re.findall(r"^\| `(\w+)\(", (DOCS / "guides" / "sharded_service.md").read_text(), re.MULTILINE))
    assert told == methods
