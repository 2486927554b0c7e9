"""The strategy of docs/write_a_strategy.md, installed beside Ballast, in processes that hear of it by name alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from benchmarks.measure.policy.recorded_day import Day
from controller.domain.events import RoundFinished
from controller.policy.strategies import STRATEGIES
from controller.process.plugins import installed_strategies
from controller.service.metrics import ControlMetrics
from controller.service.rounds.worker import RoundWorker
from tests.e2e.waiting import wait_until
from tests.plugins import GENTLE, install, write_package
from tests.short_run import ShortRun
from tests.sim.decide.decide_lines import skewed

SKEWED = """\
gen_cluster brokers=4 cores=4
gen_load bundles=48 tenants=2 skew=lognormal sigma=1.0 utilisation=0.4
assertion type=moves balance>=1 repeats==0
eval duration=15m seed=3
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the example installed."""
    folder = tmp_path / "site"
    install(GENTLE, folder)
    return folder


def ballast(site: Path, *arguments: object, lines: bytes = b"", code: int = 0) -> tuple[str, str]:
    """What a fresh `ballast` prints, with that folder on its path."""
    words = [sys.executable, "-m", "controller.cli.main", *map(str, arguments)]
    path = os.pathsep.join([str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).rstrip(os.pathsep)
    done = subprocess.run(words, input=lines, capture_output=True, timeout=120, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def test_decide_finds_it_by_name(site: Path) -> None:
    lines = skewed()
    out, _ = ballast(site, "decide", "--strategy", "gentle", "--no-split", lines=lines.next() + lines.next())
    first, second = map(json.loads, out.splitlines())
    assert [decision["kind"] for decision in first["decisions"]] == ["transfer"]
    assert second["decisions"] == [], "it rests after a move"


def test_the_simulator_holds_it_to_the_invariants(site: Path, tmp_path: Path) -> None:
    """Every round is decided again from what it stored; budget, targets and predictions are checked."""
    (tmp_path / "skewed.txt").write_text(SKEWED)
    out, _ = ballast(site, "sim", tmp_path / "skewed.txt", "--strategy", "gentle")
    assert "strategy gentle, 15 rounds" in out
    (tmp_path / "named.txt").write_text("set strategy=gentle\n" + SKEWED)
    assert "strategy gentle, 15 rounds" in ballast(site, "sim", tmp_path / "named.txt")[0]


@pytest.mark.thorough
def test_a_backtest_compares_it_on_several_processes(site: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports.jsonl"
    Day(brokers=4, bundles=40, steps=40).write_lines(reports)
    arguments = ("--reports", reports, "--out", tmp_path / "out", "--strategies", "headroom,gentle", "--jobs", 2)
    ballast(site, "backtest", *arguments)
    points = json.loads((tmp_path / "out" / "results.json").read_text())["points"]
    assert [point["strategy"] for point in points] == ["steady", "headroom", "gentle"], "what is configured comes first"
    files = len(list((tmp_path / "out" / "points").iterdir()))
    (site / "ballast_gentle.py").write_text(
        (site / "ballast_gentle.py").read_text().replace("GAP = 1_000", "GAP = 900")
    )
    ballast(site, "backtest", *arguments)
    assert len(list((tmp_path / "out" / "points").iterdir())) == files + 1, "another version's result is not taken"


def test_the_configuration_may_name_it_and_is_checked_at_the_start(site: Path) -> None:
    assert "gentle" in ballast(site, "config", "show", "--set", "rounds.strategy=gentle")[0]
    write_package(
        site, "acme", {"costly": "Costly"}, "class Costly:\n    def __init__(self): raise OSError('no licence')\n"
    )
    _, error = ballast(site, "config", "check", "--set", "rounds.challengers=costly", code=2)
    assert "rounds.challengers = costly (" in error
    assert "strategy 'costly' of acme 1.0 (entry point costly = acme:Costly) cannot be loaded" in error
    assert "OSError: no licence" in error
    assert len(error.splitlines()) == 1
    _, error = ballast(site, "decide", "--strategy", "genteel", code=2)
    assert "strategy 'genteel' is none of average, costly, gentle, headroom" in error


def test_the_round_worker_and_a_replay_find_it(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by command; the worker is a process of its own, and so is the replay of the round that it sent."""
    monkeypatch.syspath_prepend(site)
    installed_strategies.cache_clear()
    run = ShortRun(tmp_path / "tables")
    for broker in ("b1:8080", "b2:8080"):
        run.join(broker)
    run.command("create_namespace", namespace="t/n", bundles=4)
    run.look_up(*run.state.namespaces["t/n"])
    run.panes(6)
    heard: list[RoundFinished] = []
    worker = RoundWorker(
        run.settings, False, lambda event, ms: heard.append(event), ControlMetrics(CollectorRegistry())
    )
    try:
        run.command("strategy", strategy="gentle")
        run.command("round_now")
        worker.start()
        wait_until(lambda: len(heard) > 0, 120)
    finally:
        worker.stop()
        STRATEGIES.pop("gentle", None)
        sys.modules.pop("ballast_gentle", None)
        installed_strategies.cache_clear()
    assert [result.result.strategy for result in heard] == ["gentle"]
    run.batch(heard[0])
    out, _ = ballast(site, "replay", "--json", "--set", f"tables.root={run.root.root}")
    assert ("gentle", "equal") in {(row["strategy"], row["verdict"]) for row in json.loads(out)["rounds"]}
