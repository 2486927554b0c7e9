"""`ballast plan`: what it says is what the next round decides, and nothing is executed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.domain.decision import DecisionKind
from controller.domain.state import PAUSED, SHADOW
from controller.ledger.journal_commit import Journal
from controller.service.rounds.next_round import plan_next_round
from controller.service.rounds.process import Rounds
from tests.component.cli.conftest import Ballast, Document
from tests.short_run import OVERRIDES, ShortRun, begin_skewed
from tests.waiting_plans import begin_waiting

NOTHING_LATE = "rounds.late_allowance_ms=0"


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """Two brokers, one of them hot for one round; the next one moves."""
    run = begin_skewed(tmp_path_factory.mktemp("plan") / "tables", brokers=2, bundles=8, hot=2)
    run.round()  # a first hit
    run.panes(2)
    run.project()
    return run


def ask(run: ShortRun, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    sets = [*OVERRIDES, NOTHING_LATE, f"tables.root={run.root.root}"]
    with pytest.raises(SystemExit) as ended:
        main(["plan", *words, *(part for given in sets for part in ("--set", given))])
    told = capsys.readouterr()
    assert (ended.value.code or 0, told.err) == (0, "")
    return told.out


def planned(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row["bundle"], row["source"], row["target"]) for row in document["moves"]]


def test_the_plan_is_what_the_next_round_decides(skewed: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    entries = len(Journal(skewed.root).read_since(0))
    document = json.loads(ask(skewed, capsys, "--json"))
    assert document["moves"], "the skew is there to be planned on"
    staying = [row for row in document["brokers"] if row["broker"] != document["moves"][0]["source"]]
    assert all(" on average" in row["words"] for row in staying), "with their figures, though others move"
    assert len(Journal(skewed.root).read_since(0)) == entries, "nothing was executed"
    assert document["next_round_ms"] > skewed.state.round_at_ms
    assert any(note.startswith("The mode is live: ") for note in document["notes"])
    text = ask(skewed, capsys)
    first = document["moves"][0]
    assert f"1. {first['bundle']}  from {first['source']} to {first['target']}" in text
    assert f"   why: {first['reason']}: {first['words']}" in text
    assert "   effect: " in text
    skewed.command("round_now")
    done = Rounds(skewed.settings.model_copy(update={"rounds": late(skewed)}), every_round=False).advance()
    assert done is not None
    acted = [d for d in done.results[0].decisions if d.kind is not DecisionKind.SKIP]
    assert planned(document) == [(d.bundle, d.source, d.target) for d in acted]
    assert document["at_ms"] == done.results[0].at_ms


def test_a_plan_that_would_wait_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = begin_waiting(tmp_path / "tables")
    behind = f"The mode is live, but the plan of {story.round_id} waits for `ballast approve` or `decline`: "
    assert behind in " ".join(ask(story.run, capsys).split())
    story.run.command("decline", round=story.round_id)
    story.run.project()
    above = "--set", "rounds.approve_above=0"
    assert f"the plan of {story.round_id} was declined" in " ".join(ask(story.run, capsys, *above).split())
    assert "carries out what it decides" in " ".join(ask(story.run, capsys).split()), "small ones do not wait"


def test_a_round_that_is_too_large_says_that_it_waits(skewed: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(ask(skewed, capsys, "--set", "rounds.approve_above=0").split())
    assert "a round of more than 0 moves waits for `ballast approve` (rounds.approve_above)" in text


def late(run: ShortRun) -> Any:
    return run.settings.rounds.model_copy(update={"late_allowance_ms": 0})


def test_a_plan_says_what_it_could_not_know(document: Document, ballast: Ballast, run: ShortRun) -> None:
    told = document("plan")
    assert told["seq"] == run.state.seq
    notes = " ".join(told["notes"])
    assert "Loads are stale: the newest report is " in notes, "the run was in another year"
    assert "No usage model is stored yet" in notes
    assert "1 bundle is between two owners, and left alone." in notes
    assert "Which agents lag behind the journal is known to the controller alone" in notes
    out = ballast("plan")[1]
    assert all(f"- {note[:40]}" in out for note in told["notes"])
    assert {row["broker"] for row in told["brokers"]} == {"b1:8080", "b2:8080", "b3:8080"}
    owned = {row["broker"]: row["bundles"] for row in document("brokers")}
    assert {row["broker"]: row["bundles"] for row in told["brokers"]} == owned


@pytest.mark.parametrize("mode", [SHADOW, PAUSED])
def test_rounds_that_carry_nothing_out_run_all_the_same(run: ShortRun, mode: str) -> None:
    told = plan_next_round(run.settings, run.root, run.now_ms, state=replace(run.state, mode=mode))
    assert told.notes[0] == f"The mode is {mode}: rounds only record what they decide (`ballast mode live`)."


def test_another_strategy_plans_on_the_same_loads(document: Document, ballast: Ballast) -> None:
    told = document("plan --strategy overload")
    assert told["strategy"] == "overload"
    assert not told["moves"], "no broker is above 85 %"
    assert any(note.startswith("overload has no memory of earlier rounds here") for note in told["notes"])
    assert "nothing to move or split: " in ballast("plan --strategy overload")[1]
    code, _, err = ballast("plan --strategy dance")
    assert (code, err.count("\n"), "strategy 'dance' is none of" in err) == (2, 1, True)


def test_a_plan_without_loads_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ShortRun(tmp_path / "tables")
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--set", f"tables.root={run.root.root}"])
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (1, "")
    assert told.err.startswith("ballast: no load reports to plan with at ")
    assert told.err.count("\n") == 1
