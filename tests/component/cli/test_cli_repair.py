"""`ballast repair`: the plan in words, what it refuses, and that it changes nothing without --execute."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.operations.doctor.finding import Page
from tests.component.cli.conftest import NOWHERE
from tests.short_run import ShortRun

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(run: ShortRun, tmp_path: Path) -> Path:
    """The tables of the run, to damage."""
    return Path(shutil.copytree(run.root.root, tmp_path / "tables"))


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def run_command(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--set", f"tables.root={folder}", "--set", NOWHERE])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run_command


def newest_commit(folder: Path, name: str) -> Path:
    return max((folder / name / "_delta_log").glob("*.json"))


def listing(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_damaged(call: Call) -> None:
    code, out, err = call("repair --offline")
    assert (code, err) == (0, "")
    assert out.startswith("no table is damaged\n")
    assert "Kafka was not asked (--offline)" in out


def test_a_dry_run_says_what_would_be_done(call: Call, folder: Path) -> None:
    newest_commit(folder, "journal").write_text("")
    before = listing(folder)
    code, out, err = call("repair")
    assert (code, err) == (1, "")
    version = int(newest_commit(folder, "journal").stem)
    assert f"_delta_log/{version:020d}.json is empty" in out
    assert f"write version {version} again, with entries " in out
    assert "(loses nothing)" in out
    assert "no Kafka answers at 127.0.0.1:1" in out
    assert "nothing was changed: stop the controller, then run `ballast repair --execute`" in out
    assert listing(folder) == before


def test_one_document(call: Call, folder: Path) -> None:
    newest_commit(folder, "journal").write_text("{")
    code, out, err = call("repair --offline --json")
    assert (code, err) == (1, "")
    document = json.loads(out)
    assert [damage["table"] for damage in document["damage"]] == ["journal"]
    assert [step["loses"] for step in document["steps"]] == ["nothing", "nothing"]
    assert (document["executed"], document["copies"], document["impossible"]) == (False, None, None)
    assert len(document["state_sha256"]) == 64


def test_what_cannot_be_mended_says_what_is_left_to_do(call: Call, folder: Path) -> None:
    shutil.rmtree(folder / "control_state")
    for file in (folder / "journal").glob("*.parquet"):
        file.write_bytes(b"")
    code, out, _ = call("repair --offline")
    assert code == 1
    assert "The journal cannot be mended: entries 1 to " in out
    assert "`ballast repair --execute --new-journal`, then `ballast run --new-journal`" in out


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("repair --execute --offline", 2, "--execute asks Kafka whether a controller lives: leave --offline out"),
        ("repair --execute", 1, "no Kafka answers at 127.0.0.1:1"),
        ("repair --table jurnal --offline", 2, "--table jurnal: give one of journal, "),
    ],
)
def test_refusals(call: Call, folder: Path, line: str, code: int, text: str) -> None:
    newest_commit(folder, "journal").write_text("")
    before = listing(folder)
    ended, out, err = call(line)
    assert (ended, out) == (code, "")
    assert text in err
    assert err.count("\n") == 1
    assert listing(folder) == before


def test_no_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["repair", "--offline", "--set", f"tables.root={tmp_path / 'none'}"])
    assert ended.value.code == 1
    assert "no tables at" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["status --offline", "brokers", "journal", "bundles"])
def test_other_commands_name_the_file_and_this_one(call: Call, folder: Path, line: str) -> None:
    file = newest_commit(folder, "journal")
    file.write_text("")
    code, _, err = call(line)
    assert code == 1
    assert f"journal is damaged: _delta_log/{file.name} is empty; `ballast repair` says what can be done" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["journal", "ownership", "control_state"])
def test_doctor_finds_it(call: Call, folder: Path, name: str) -> None:
    file = newest_commit(folder, name)
    file.write_text("")
    code, out, _ = call("doctor --offline --json")
    assert code == 1
    found = [f for f in json.loads(out)["findings"] if f["page"] == Page.DAMAGED.value]
    assert any(f"_delta_log/{file.name} is empty" in f["text"] for f in found)
    assert all("`ballast repair`" in f["remedy"] for f in found)


def test_missing_tables_are_told_with_what_is_lost_and_what_comes_again(call: Call, folder: Path) -> None:
    for name in ("ownership", "rounds"):
        shutil.rmtree(folder / name)
    for line in ("repair --offline", "repair --offline --table rounds --table ownership"):
        code, out, err = call(line)
        assert (code, err) == (1, ""), line
        assert out.startswith("no file of a table is damaged, but tables are missing\n")
        assert "ownership  is missing: the controller writes it again from the journal" in out
        assert "is missing, though the journal names rounds, the newest " in out
        assert "the next start of `ballast run` creates missing tables; if there is a copy of the lost tables" in out
    document = json.loads(call("repair --offline --json")[1])
    assert {each["table"]: each["lost"] for each in document["missing"]} == {"ownership": False, "rounds": True}


def test_missing_tables_that_are_made_again_are_no_problem(call: Call, folder: Path) -> None:
    shutil.rmtree(folder / "brokers")
    code, out, _ = call("repair --offline")
    assert (code, "is missing: the controller writes it again from the journal" in out) == (0, True)


@pytest.mark.parametrize(
    ("name", "line"),
    [("rounds", "rounds"), ("rounds", "replay --all"), ("rounds", "rounds --json"), ("decisions", "decisions")],
)
def test_rounds_whose_table_is_missing_are_no_rounds_that_never_ran(
    call: Call, folder: Path, name: str, line: str
) -> None:
    shutil.rmtree(folder / name)
    code, out, err = call(line)
    assert (code, out) == (1, "")
    assert f"table {name} is missing, though the journal names rounds, the newest " in err
    assert "put a copy of the table in its place if there is one; the next start of `ballast run` creates" in err
    assert err.count("\n") == 1


def test_other_commands_go_on_without_the_rounds(call: Call, folder: Path) -> None:
    shutil.rmtree(folder / "rounds")
    assert call("brokers")[0] == 0
    assert call("status --offline")[0] in (0, 1)
    found = {
        f["check"]: f for f in json.loads(call("doctor --offline --json")[1])["findings"] if f["check"] == "rounds"
    }
    assert found["rounds"]["severity"] == "severe"
    assert "though the journal names rounds" in found["rounds"]["text"]
    assert found["rounds"]["remedy"].startswith("put a copy of the table in its place")
