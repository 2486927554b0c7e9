"""A backtest on the tables of a run has a round as often as the run had, unless the user says otherwise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.domain.entries import Kind
from tests.component.cli.conftest import Ballast
from tests.short_run import ShortRun

INTERVAL = "rounds.round_interval_s"


@pytest.fixture
def usual_ms(run: ShortRun) -> int:
    """The usual time between the run's rounds, by its journal."""
    rounds = [e.data for e in run.entries if e.kind is Kind.ROUND]
    at_ms = sorted({data["at_ms"] for data in rounds if not data.get("challenger")})
    usual = round(float(np.median(np.diff(at_ms))))
    assert usual not in (60_000, 90_000), "what is configured would say little"
    return usual


def about(ballast: Ballast, tables: str, out: Path, *more: str) -> dict[str, Any]:
    arguments = ("--reports", tables, "--strategies", "steady", "--out", str(out), "--jobs", "1", *more)
    code, _, err = ballast("backtest", *arguments)
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads((out / "results.json").read_text())["about"]
    return found


def test_rounds_come_as_recorded(ballast: Ballast, run: ShortRun, usual_ms: int, tmp_path: Path) -> None:
    conf = tmp_path / "mine.yaml"
    conf.write_text("rounds:\n  round_interval_s: 90\n")
    for number, more in enumerate(((), ("--conf", str(conf)))):
        told = about(ballast, run.root.root, tmp_path / str(number), *more)
        assert (told["round_interval_ms"], told["step_ms"]) == (usual_ms, 10_000)


def test_an_interval_that_is_set_for_the_run_holds(ballast: Ballast, run: ShortRun, tmp_path: Path) -> None:
    told = about(ballast, run.root.root, tmp_path / "set", "--set", f"{INTERVAL}=90")
    assert told["round_interval_ms"] == 90_000
    told = about(ballast, run.root.root, tmp_path / "often", "--set", f"{INTERVAL}=5", "--set", "loads.pane_s=5")
    assert (told["round_interval_ms"], told["step_ms"]) == (5_000, 10_000), "panes were of 10 s"
    told = about(ballast, run.root.root, tmp_path / "step", "--set", f"{INTERVAL}=90", "--step-ms", "30000")
    assert (told["round_interval_ms"], told["step_ms"]) == (90_000, 30_000)


def test_no_step_is_shorter_than_a_pane_and_who_asked_for_one_is_told(
    ballast: Ballast, run: ShortRun, tmp_path: Path
) -> None:
    found = {}
    for step_ms in ("1", "10000"):
        out = tmp_path / step_ms
        arguments = ("--reports", run.root.root, "--strategies", "steady", "--out", str(out), "--step-ms", step_ms)
        code, said, err = ballast("backtest", *arguments, "--jobs", "1")
        assert code == 0
        assert "\n1 point (0 kept from before), " in said
        assert ("--step-ms 1: panes of the tables are 10000 ms apart" in err) == (step_ms == "1")
        found[step_ms] = json.loads((out / "results.json").read_text())
    assert found["1"] == found["10000"]


def test_a_copy_of_the_panes_alone_has_the_configured_interval(
    ballast: Ballast, run: ShortRun, usual_ms: int, tmp_path: Path
) -> None:
    copy = tmp_path / "tables"
    for name in ("broker_panes", "bundle_panes"):
        shutil.copytree(Path(run.root.root) / name, copy / name)
    assert about(ballast, str(copy), tmp_path / "out")["round_interval_ms"] == 60_000
