"""`ballast backtest` as an operator runs it: twice the same bytes, finished points are kept, also by an interrupt."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchmarks.measure.policy.recorded_day import Day
from controller.backtest.point.grid import GridPoint
from controller.backtest.point.result import PointRun
from controller.backtest.point.run_point import run_point
from controller.backtest.recording.prepared import Replay, prepare
from controller.backtest.store import Job, Store, load_arrays
from controller.cli.backtest_table import emit_scoreboard
from controller.cli.main import main
from controller.domain.settings.policy import PolicySettings
from controller.domain.settings.weighted import WeightedSettings
from tests.sim.backtest.test_backtest_recommend import point

REAL = Path(__file__).parents[2] / "data" / "real" / "pulsar_load_reports.jsonl"
PAGE = (Path(__file__).parents[3] / "docs" / "backtests.md").read_text()
GRID = ["--grid", "steady.tolerance=0.03,0.05", "--grid", "shed.overloaded_threshold=0.6,0.85"]
RESULTS = ("results.csv", "results.json")


def backtest(reports: Path, out: Path, *more: str) -> int:
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["backtest", "--reports", str(reports), "--out", str(out), "--jobs", "1", *more])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of eight brokers with 120 bundles, unevenly placed."""
    path = tmp_path_factory.mktemp("day") / "reports.jsonl"
    assert Day(brokers=8, bundles=120, steps=240).write_lines(path) == 8 * 240
    return path


@pytest.mark.parametrize("page", re.findall(r"\$ ballast (backtest --reports tests/data/real/[^$]*)", PAGE))
def test_the_documented_rows_of_steady_are_what_it_does(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, table = re.split(r"\nstrategy .*\n", page, maxsplit=1)
    words = command.replace("\\\n", " ").split()
    words[words.index("--out") + 1], words[words.index("--strategies") + 1] = str(tmp_path / "out"), "steady"
    with pytest.raises(SystemExit):
        main([*words, "--jobs", "1"])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("steady "))
    assert row.split() == table.split("\n")[0].split()


@pytest.mark.covers("backtest")
@pytest.mark.thorough
def test_two_runs_give_the_same_bytes_whatever_the_number_of_processes(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--strategies", "steady,threshold", *GRID)
    assert backtest(day, tmp_path / "one", *arguments) == 0
    first = capsys.readouterr().out
    assert backtest(day, tmp_path / "two", *arguments, "--jobs", "2") == 0
    second = capsys.readouterr().out
    assert first.replace(str(tmp_path / "one"), "") == second.replace(str(tmp_path / "two"), "")
    for name in RESULTS:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    points = json.loads((tmp_path / "one" / "results.json").read_text())["points"]
    files = list((tmp_path / "one" / "points").iterdir())
    assert len(files) == len(points) == 1 + 4 + 2
    assert [(p["strategy"], p["knobs"].get("steady.tolerance")) for p in points] == [
        ("steady", PolicySettings().steady.tolerance),  # as configured
        ("steady", 0.03), ("steady", 0.03), ("steady", 0.05), ("steady", 0.05),
        ("threshold", None), ("threshold", None),  # it does not know the tolerance of steady
    ]  # fmt: skip
    steady = [p for p in points if p["strategy"] == "steady"]
    threshold = [p for p in points if p["strategy"] == "threshold"]
    assert all(p["moves_balance"] > 0 for p in steady)
    assert max(p["max_best_mean"] for p in steady) < min(p["max_best_mean"] for p in threshold)
    assert re.search(r"\nKeep `steady` with [^:]*tolerance 0\.06: ", first)
    assert "\nrecommended strategy: steady, low confidence (2.0 hours, 120 rounds" in first


def test_the_report_names_its_configuration_and_minutes_recommend_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bundles carry what a card of 40 Mbit/s can: `steady` cuts them, and is no better than the best achievable."""
    conf = tmp_path / "mine.yaml"
    conf.write_text("rounds:\n  round_interval_s: 10\nshedding:\n  cpu_weight: 0\n")
    card = ("agent.message_throughput_as_bandwidth=true", "agent.override_broker_nic_speed_gbps=0.04")
    sets = [part for given in card for part in ("--set", given)]
    assert backtest(REAL, tmp_path, "--strategies", "steady,headroom", "--conf", str(conf), *sets) == 0
    out = capsys.readouterr().out
    assert "\nChange nothing: a recording this short does not tell what is better. Record an hour at least" in out
    assert "recommended: nothing, no confidence (5 minutes, 31 rounds: too short to choose by)" in out
    assert "; as configured: steady.budget 1.0" in out
    assert "recommended strategy" not in out
    document = json.loads((tmp_path / "results.json").read_text())
    configuration = document["about"]["configuration"]
    assert str(conf) in configuration
    assert all(given in configuration for given in card)
    assert configuration in (tmp_path / "report.html").read_text()
    assert document["points"][0]["splits"] > 0
    lines = [json.loads(file.read_text())["timeline"]["max_best"] for file in (tmp_path / "points").iterdir()]
    assert min(map(min, lines)) >= 1.0


def test_on_a_narrow_terminal_the_scoreboard_has_fewer_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [replace(point(name), knobs={"steady.tolerance": 0.05}) for name in ("steady", "threshold")]
    emit_scoreboard(tried, {}, {})
    everything = capsys.readouterr().out.splitlines()
    assert [head in everything[0] for head in ("at the end", "to and fro", "nine in ten")] == [True, True, True]
    monkeypatch.setenv("FORCE_COLOR", "1")  # what a terminal is to rich
    for columns, lines in (("80", 3), ("40", 2 * 4)):
        monkeypatch.setenv("COLUMNS", columns)
        emit_scoreboard(tried, {}, {})
        shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
        assert len(shown) == lines
        assert max(len(line.rstrip()) for line in shown) <= int(columns)
        assert "imbalance" in "".join(shown)
        assert "to and fro" not in "".join(shown)


def test_a_second_run_runs_nothing_again_and_more_points_only_what_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(REAL, tmp_path, "--strategies", "steady,overload") == 0
    tables = [(tmp_path / name).read_bytes() for name in RESULTS]
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "points").iterdir()}
    assert len(before) == 2
    assert backtest(REAL, tmp_path, "--strategies", "steady,overload") == 0
    out = capsys.readouterr().out
    assert "(2 kept from before)" in out
    assert "\nconfiguration: defaults; profile local\n" in out
    assert [(tmp_path / name).read_bytes() for name in RESULTS] == tables
    assert backtest(REAL, tmp_path, "--strategies", "uniform,steady,overload") == 0
    assert "3 points (2 kept from before)" in capsys.readouterr().out
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "points").iterdir()}
    assert {file: after[file] for file in before} == before
    assert len(after) == 3


def test_another_configuration_or_recording_is_another_point(tmp_path: Path) -> None:
    for more in ((), ("--set", "steady.tolerance=0.2"), ("--gap-ms", "0"), ("--missed-steps", "5")):
        assert backtest(REAL, tmp_path, "--strategies", "steady", *more) == 0
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_text("".join(f"{line}\n" for line in REAL.read_text().splitlines()[:150]))
    assert backtest(shorter, tmp_path, "--strategies", "steady") == 0
    assert len(list((tmp_path / "points").iterdir())) == 5


def test_a_changed_provider_of_ones_own_is_another_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code computes results as much as ours does."""
    module, name = tmp_path / "providers_of_mine.py", "providers_of_mine.Mine"
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = []
    for limit in (0.5, 0.7, 0.5):
        module.write_text(
            "from controller.policy.weighted.providers import CpuProvider\n\nclass Mine(CpuProvider):\n"
            f"    name = 'mine'\n\n    def _share(self, settings):\n        return {limit}\n"
        )
        base = PolicySettings(weighted=WeightedSettings(load_awareness_providers=(name,)))
        keys.append(Job("recording", base, Replay()).key(GridPoint("weighted", ())))
    assert keys[0] == keys[2] != keys[1]


def test_a_damaged_point_is_run_again(tmp_path: Path) -> None:
    assert backtest(REAL, tmp_path, "--strategies", "steady") == 0
    (file,) = (tmp_path / "points").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert backtest(REAL, tmp_path, "--strategies", "steady") == 0
    assert file.read_bytes() == whole


@pytest.mark.parametrize(("jobs", "number"), [("1", signal.SIGINT), ("2", signal.SIGINT), ("2", signal.SIGTERM)])
def test_an_interrupt_keeps_what_is_finished(day: Path, tmp_path: Path, jobs: str, number: signal.Signals) -> None:
    tolerances = ",".join(f"0.{at:03d}" for at in range(10, 130))
    command = [
        sys.executable, "-m", "controller.cli.main", "backtest", "--reports", str(day), "--out", str(tmp_path),
        "--jobs", jobs, "--strategies", "steady", "--grid", f"steady.tolerance={tolerances}",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    points = tmp_path / "points"
    try:
        until = time.monotonic() + 60
        while len(list(points.glob("*.json"))) < 2 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        workers = psutil.Process(process.pid).children(recursive=True)
        if number is signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does: workers hear it, too
        else:
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 130, err
    assert not psutil.wait_procs(workers, timeout=10)[1]
    kept = len(list(points.glob("*.json")))
    assert 2 <= kept < 120
    assert f"{kept} of 120 points are kept" in err
    assert "Traceback" not in err
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 1 + kept
    assert f"{kept} points (0 kept from before)" in out


def test_another_configuration_is_named_and_takes_no_results_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "site.yaml"
    conf.write_text("shedding: {overloaded_threshold_pct: 40}")
    out = tmp_path / "out"
    assert backtest(REAL, out, "--strategies", "overload") == 0
    monkeypatch.setenv("BALLAST_CONF", str(conf))
    assert backtest(REAL, out, "--strategies", "overload") == 0
    told = f"file {conf} (BALLAST_CONF); profile local"
    said = capsys.readouterr().out
    assert "(0 kept from before)" in said.split("configuration: defaults")[1]
    assert f"configuration: {told}\n" in said
    assert json.loads((out / "results.json").read_text())["about"]["configuration"] == told
    assert told in (out / "report.html").read_text()


def test_bad_arguments_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, said in (
        (("--strategies", "best"), "best"),
        (("--strategies", ","), "no strategy"),
        (("--strategies", "steady", "--grid", "steady.tolerence=1"), "the nearest is steady.tolerance\n"),
        (
            ("--strategies", "steady", "--grid", "shedding.overloaded_treshold_pct=80"),
            "the nearest is shedding.overloaded_threshold_pct\n",
        ),
        (
            ("--strategies", "steady", "--grid", "grace_period_minutes=3"),
            "the nearest is shedding.grace_period_minutes\n",
        ),
        (("--strategies", "steady", "--grid", "frobnicate=3"), "frobnicate: there is no such knob\n"),
        (("--strategies", "steady", "--grid", "rounds.round_interval_s=3"), "cannot be varied in a backtest"),
        (("--strategies", "steady", "--grid", "steady.tolerance=0.05,-1"), "--grid steady.tolerance=-1.0: "),
        (("--strategies", "steady", "--grid", "shed.overloaded_threshold=85"), "give a number from 1 to 100 (percent)"),
        (("--strategies", "steady", "--grid", "shed.consecutive_rounds=0"), "shedding.consecutive_rounds"),
    ):
        assert backtest(REAL, tmp_path / "out", *more) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists(), "nothing is left where nothing was run"
    assert backtest(tmp_path / "nothing", tmp_path, "--strategies", "steady") == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_place_where_no_folder_can_be_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("kept")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper", Path("/proc/results")):
        assert backtest(REAL, out, "--strategies", "steady") == 2
        assert f"--out {out} cannot be used" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"


def test_steps_shorter_than_reports_are_apart_lose_no_broker(tmp_path: Path) -> None:
    """The brokers of the recording report one after the other, every five seconds."""
    for step_ms in ("1000", "5000"):
        assert backtest(REAL, tmp_path / step_ms, "--strategies", "steady", "--step-ms", step_ms) == 0
        (point,) = json.loads((tmp_path / step_ms / "results.json").read_text())["points"]
        assert (point["brokers"], point["moves_removal"]) == (3, 0)


def test_refused_lines_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = tmp_path / "reports.jsonl"
    reports.write_text(REAL.read_text() + "nonsense\n")
    assert backtest(reports, tmp_path / "out", "--strategies", "steady") == 0
    assert "not_json: 1" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "quarantine.jsonl").read_text())["line"] == 187


def test_a_refused_recording_leaves_only_its_refused_lines(tmp_path: Path) -> None:
    reports = tmp_path / "reports.jsonl"
    reports.write_text("nonsense\n")
    assert backtest(reports, tmp_path / "out", "--strategies", "steady") == 2
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["quarantine.jsonl"]


def test_one_backtest_at_a_time_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second would remove the arrays that the first one's processes read."""
    with Store(tmp_path).alone():
        assert backtest(REAL, tmp_path, "--strategies", "steady", "--gap-ms", "0") == 2
        assert f"another backtest works in {tmp_path}" in capsys.readouterr().err
        assert backtest(REAL, tmp_path / "other", "--strategies", "steady") == 0
    assert backtest(REAL, tmp_path, "--strategies", "steady", "--gap-ms", "0") == 0


def test_what_is_not_its_own_stays_in_the_folder(tmp_path: Path) -> None:
    """Arrays of another configuration go; whatever else somebody keeps under that name does not."""
    theirs = tmp_path / "replays" / "of-mine"
    theirs.mkdir(parents=True)
    (theirs / "notes").write_text("kept")
    (tmp_path / "replays" / "file").write_text("kept")
    for more in ((), ("--gap-ms", "0"), ("--missed-steps", "5")):
        assert backtest(REAL, tmp_path, "--strategies", "steady", *more) == 0
    assert (theirs / "notes").read_text() == (tmp_path / "replays" / "file").read_text() == "kept"
    assert len(list((tmp_path / "replays").iterdir())) == 2 + 1


def test_stored_arrays_are_the_prepared_ones(tmp_path: Path) -> None:
    recording = Day(brokers=4, bundles=40, steps=20).recording()
    base, replay, point = PolicySettings(), Replay(), GridPoint("steady", (("steady.tolerance", 0.1),))
    prepared = prepare(recording, base.weights.in_order(), replay)
    store, job = Store(tmp_path), Job(recording.digest(), base, replay)
    loaded = load_arrays(store.keep_arrays(job, prepared))
    run = run_point(loaded, point, base, replay)
    assert run == run_point(prepared, point, base, replay)
    assert store.load(job, point) is None
    store.keep(job, point, run)
    assert store.load(job, point) == run
    assert isinstance(store.load(job, point), PointRun)
