"""`ballast replay-reports` on what four real Pulsar brokers reported: the whole pipeline, at several speeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import ballast, json_lines

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(900)]

RECORDING = Path(__file__).parents[1] / "data" / "real" / "pulsar_load_reports.jsonl"
SOURCES = {
    "baseline": [],
    "hot_A3": ["127.0.0.1:18083"],
    "hot_B3": ["127.0.0.1:18082"],
    "hot_A1_very": ["127.0.0.1:18083"],
    "hot_mix": ["127.0.0.1:18083"],
    "cooldown": [],
}
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def at_speed_50() -> Lines:
    """Decisions and, last, the summary."""
    return json_lines(ballast("replay-reports", str(RECORDING), "--json", "--speed", "50"))


def test_the_recording_gives_the_sources_that_were_made_hot(at_speed_50: Lines) -> None:
    summary = at_speed_50[-1]
    assert (summary["reports"], summary["quarantined"]) == (186, 0)
    assert summary["sources_by_phase"] == SOURCES
    assert summary["decisions"] == len(at_speed_50) - 1
    assert summary["rounds"] > len(SOURCES)


def test_every_decision_is_about_a_broker_that_was_hot_and_moves_nothing(at_speed_50: Lines) -> None:
    moves = [line for line in at_speed_50[:-1] if line["kind"] == "transfer"]
    assert moves, "a hot broker leads to decisions"
    assert {line["outcome"] for line in at_speed_50[:-1]} == {"301_shadow_mode"}
    assert {line["source"] for line in moves} <= {"127.0.0.1:18082", "127.0.0.1:18083"}
    assert all(line["source"] != line["target"] for line in moves)


@pytest.mark.parametrize("speed", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_speed_changes_no_decision(at_speed_50: Lines, speed: int) -> None:
    assert json_lines(ballast("replay-reports", str(RECORDING), "--json", "--speed", str(speed))) == at_speed_50


def test_a_recording_that_cannot_be_read_ends_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('\n{"ts": \n')
    done = ballast("replay-reports", str(broken), "--json")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "line 2" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
