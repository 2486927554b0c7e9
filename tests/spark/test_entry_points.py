"""Every program that the documentation names starts by its own command: as a process, from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from controller.process.paths import ROOT
from controller.process.spark_submit import spark_environment, spark_submit_command

PYTHON = sys.executable
BALLAST = str(Path(PYTHON).with_name("ballast"))
CASES = ROOT / "tests" / "data" / "pulsar_cases.json"
JOBS = ("balance", "backtest", "maintain")
PAGES = ("coverage", "modules", "performance", "reasons", "strategies")


def call(command: Sequence[str | Path], folder: Path, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_ballast_lists_its_commands(tmp_path: Path) -> None:
    code, out, err = call([BALLAST, "--help"], tmp_path)
    assert (code, err) == (0, "")
    assert all(command in out for command in ("run", "broker", "explain", "sim", "backtest", "demo"))


def test_the_benchmarks_list_their_names_and_refuse_others() -> None:
    code, out, _ = call([PYTHON, "-m", "benchmarks", "--help"], ROOT)
    assert code == 0
    assert "decide_speed" in out
    code, out, err = call([PYTHON, "-m", "benchmarks", "levitation"], ROOT)
    assert (code, out) == (2, "")
    assert "levitation" in err


def test_the_conformance_runner_runs_the_cases_of_a_file(tmp_path: Path) -> None:
    cases = [case for case in json.loads(CASES.read_text()) if case["kind"] == "state-transition"]
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))
    code, out, err = call([PYTHON, "-m", "benchmarks.conformance", file], ROOT)
    assert (code, err) == (0, "")
    assert json.loads(out.splitlines()[-1]) == {"pass": len(cases), "fail": 0, "not_applicable": 0}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_documentation_has_its_command(page: str) -> None:
    code, out, _ = call([PYTHON, "-m", f"benchmarks.pages.{page}", "--help"], ROOT)
    assert code == 0
    assert "--write" in out


@pytest.mark.parametrize("job", JOBS)
def test_spark_submit_starts_a_job_from_any_folder(job: str, tmp_path: Path) -> None:
    command = spark_submit_command(["--help"], job=ROOT / "jobs" / f"{job}.py")
    code, out, err = call(command, tmp_path, spark_environment(os.environ))
    assert code == 0, err
    assert "usage:" in out
