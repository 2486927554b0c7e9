"""`ballast status` after the controller has stopped: when, and that what it shows is of then."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.cli.tryout import demo as demo_command
from controller.config.load import load_settings
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.ledger.journal_commit import Journal
from controller.operations.liveness import OFFLINE
from controller.operations.overview import status as status_of
from controller.operations.reading import Reader
from controller.operations.stopped import MAYBE_OVER, OVER, with_stop
from controller.process.paths import ROOT
from controller.ui.cluster import LiveCluster
from controller.ui.heard import NOT_ASKED, Word
from controller.ui.views.now import now as now_view
from tests.short_run import INSTANCE, ShortRun, play

AGO_MS = 60_000


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    return play(tmp_path_factory.mktemp("stopped") / "tables")


@pytest.fixture
def stopped(short_run: ShortRun, tmp_path: Path) -> Path:
    """The short run's tables with a controller's last word."""
    tables = tmp_path / "tables"
    shutil.copytree(short_run.root.root, tables)
    journal = Journal(tables)
    last = Entry(journal.last_seq + 1, Kind.CONTROLLER_STOPPED, INSTANCE, 999, short_run.now_ms)
    journal.commit([last], INSTANCE, 999)
    return tables


def document(run: ShortRun, profile: str) -> dict[str, Any]:
    reader = Reader(run.settings)
    now_ms = run.now_ms + AGO_MS
    return with_stop(reader, status_of(reader, now_ms, None, "no Kafka answers"), profile, now_ms)


def call(line: str, tables: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([*line.split(), "--set", f"tables.root={tables}", "--set", "kafka.bootstrap_servers=127.0.0.1:1"])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_a_finished_demo_says_so(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call("status --profile demo", stopped, capsys)
    assert code == 1
    assert "stopped in good order at 20" in out
    assert "all below is as it was then" in out
    assert " alive until the demo's end" in out
    assert "! this demo is over" in out
    assert "no Kafka answers" not in out
    assert "`ballast decisions`" in out
    assert "start one with `ballast run`" not in out


def test_a_finished_demo_needs_neither_a_controller_nor_a_kafka(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(call("doctor --profile demo --json", stopped, capsys)[1])["findings"]
    (found,) = [row for row in told if row["check"] == "controller"]
    assert (found["severity"], found["text"], found["remedy"]) == ("note", OVER, None)
    assert not [row for row in told if row["check"] == "kafka"]
    told = json.loads(call("doctor --profile local --json", stopped, capsys)[1])["findings"]
    assert "start one with `ballast run`" in [row["remedy"] for row in told]
    told = json.loads(call("doctor --offline --profile demo --json", stopped, capsys)[1])["findings"]
    (found,) = [row for row in told if row["check"] == "controller"]
    assert (found["severity"], found["text"]) == ("note", MAYBE_OVER)


@pytest.mark.parametrize("line", ["mode live", "drain b1:8080", "unload t/n"])
def test_a_command_to_a_finished_demo_says_that_it_is_over(
    line: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(profile: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--profile", profile, "--set", f"tables.root={stopped}",
                  "--set", "kafka.bootstrap_servers=127.0.0.1:1"])  # fmt: skip
        assert ended.value.code
        return capsys.readouterr().err

    assert refused("demo") == f"ballast: nothing was sent: {OVER}\n"
    assert "no Kafka answers at 127.0.0.1:1" in refused("local")


def test_a_plan_of_a_stopped_demo_asks_for_no_controller(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for profile, note in (("demo", "This demo's controller has stopped"), ("local", "No controller runs")):
        assert f"- {note}: nobody carries this out" in call(f"plan --profile {profile}", stopped, capsys)[1]


def test_brokers_of_a_stopped_controller_are_those_of_then(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call("brokers", stopped, capsys)
    assert code == 0
    assert out.startswith("no controller runs: it stopped at 20")
    assert "UTC, and this is as it was then\n\nbroker " in out


def test_another_cluster_is_to_be_started_again(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call("status --profile local", stopped, capsys)
    assert code == 1
    assert "stopped in good order at 20" in out
    assert "! no Kafka answers at 127.0.0.1:1 (" in out
    assert "! no controller runs: start one with `ballast run`" in out
    assert "demo" not in out


def test_a_demo_is_not_over_while_its_kafka_answers(stopped: Path, short_run: ShortRun) -> None:
    """Nor is it known to be where Kafka was not asked."""
    reader = Reader(load_settings(None, "demo", [f"tables.root={stopped}"], env={}))
    for kafka_error in (None, OFFLINE):
        told = with_stop(reader, status_of(reader, short_run.now_ms, None, kafka_error), "demo", short_run.now_ms)
        assert told["demo_is_over"] is False
        wanted = "no controller runs: start one with `ballast run`" if kafka_error is None else MAYBE_OVER
        assert wanted in told["problems"]
        assert not any("Kafka" in problem for problem in told["problems"])


def test_a_page_advises_nothing_of_a_stopped_demo_until_its_kafka_has_been_asked(
    stopped: Path, short_run: ShortRun
) -> None:
    """The journal alone does not tell a demo that is over from one whose controller is to be started again."""
    now_ms = short_run.now_ms + AGO_MS

    def shown(profile: str, not_asked: str) -> list[str]:
        settings = load_settings(None, profile, [f"tables.root={stopped}"], env={})
        cluster = LiveCluster(settings)
        cluster.poll()
        return list(now_view(cluster, Word(None, not_asked), now_ms)["problems"])

    assert shown("demo", NOT_ASKED.not_asked) == []
    assert shown("demo", "no Kafka answers") == [OVER]
    assert "no controller runs: start one with `ballast run`" in shown("local", NOT_ASKED.not_asked)


def test_the_file_that_was_given_is_no_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ballast.yaml").write_text("tables: {root: none}")
    with pytest.raises(SystemExit):
        main(["status", "--conf", "ballast.yaml"])
    told = capsys.readouterr().err
    assert f"no tables at {tmp_path}/none" in told
    assert "there is ballast.yaml" not in told
    with pytest.raises(SystemExit):
        main(["status", "--set", f"tables.root={tmp_path}/none"])
    assert "there is ballast.yaml" in capsys.readouterr().err


def test_the_document_tells_when(stopped: Path, short_run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = call("status --profile demo --json", stopped, capsys)
    told = json.loads(out)
    assert told["controller"]["stopped_at_ms"] == short_run.now_ms
    assert told["demo_is_over"] is True


def test_a_controller_that_failed_says_why(
    short_run: ShortRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that ends by itself is not silent: nobody killed it, and Kafka was reached."""
    tables = tmp_path / "tables"
    shutil.copytree(short_run.root.root, tables)
    journal = Journal(tables)
    why = {"failed": "the loads query ended: no space left"}
    last = Entry(journal.last_seq + 1, Kind.CONTROLLER_STOPPED, INSTANCE, 999, short_run.now_ms, data=why)
    journal.commit([last], INSTANCE, 999)
    code, out = call("status --profile local", tables, capsys)
    assert code == 1
    assert "FAILED at 20" in out
    assert "! the controller failed: the loads query ended: no space left" in out
    assert "start one with `ballast run`" in out
    assert json.loads(call("status --json", tables, capsys)[1])["controller"]["failed"] == why["failed"]


def test_a_controller_that_runs_has_not_stopped(short_run: ShortRun) -> None:
    told = document(short_run, "demo")
    assert "stopped_at_ms" not in told["controller"]
    assert "demo_is_over" not in told


def refusal(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a demo says that is to run in a folder where it may not."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--headless", "--dir", str(folder)])
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["ballast.yaml", "setup.py", ".git"])
def test_a_demo_leaves_a_folder_alone_that_has_anything_in_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever works on it is not to be ended, and nothing in it to be deleted."""
    (tmp_path / name).touch()
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()", f"{tmp_path}/{name}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE):
        assert (
            refusal(tmp_path, capsys) == f"ballast demo: {tmp_path} is not empty: give a folder that is new or empty\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_still_runs_in_the_folder_of_another_demo_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after the SIGKILL of a demo, which leaves its processes behind."""
    (tmp_path / "ballast.yaml").touch()
    for name in ("kafka", "logs"):
        (tmp_path / name).mkdir()
    refused = f"ballast demo: {tmp_path} is not empty: give a folder that is new or empty"
    assert refusal(tmp_path, capsys) == f"{refused}\n"
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()", f"{tmp_path}/ballast.yaml"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as left:
        told = f"; processes of a cluster still run in it: to end them, `kill {left.pid}`"
        assert refusal(tmp_path, capsys) == f"{refused}{told}\n"
    words = [sys.executable, "-m", "controller.cli.main", "demo", "--headless", "--dir", f"{tmp_path}/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (2, f"{refused}\n"), "it does not mean itself"


def test_a_demo_may_begin_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(where: Path, *more: object, **options: object) -> None:
        raise BallastError(f"started in {where}")

    monkeypatch.setattr(demo_command, "_run", started)
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(SystemExit):
            main(["demo", "--headless", "--dir", str(folder)])
        assert f"started in {folder};" in capsys.readouterr().err
