"""What the command line tells of a plan that waited: of its round, of its moves, of bundles, and of later rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controller.cli.main import main
from controller.domain.entries import Kind
from controller.operations.evidence_view import EvidenceView
from controller.operations.overview import status as status_of
from controller.operations.plans.plan_words import approval_text
from controller.operations.reading import Reader
from tests.waiting_plans import Waiting, begin_waiting, play_approved

Tell = Callable[..., str]
STALE = "408_state_has_moved_on"


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    return play_approved(tmp_path_factory.mktemp("approved") / "tables")


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """What a command prints about a story's tables."""

    def call(story: Waiting, *line: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*line, "--set", f"tables.root={story.run.root.root}"])
        assert not ended.value.code
        return capsys.readouterr().out

    return call


def told(tell: Tell, story: Waiting, *line: str) -> Any:
    return json.loads(tell(story, *line, "--json"))


def test_a_round_says_who_approved_its_plan_and_what_became_of_each_move(approved: Waiting, tell: Tell) -> None:
    text = tell(approved, "explain", approved.round_id)
    assert "approved by anna@ops at 2026-" in text
    assert "1 of 2 moves carried out; 1 left out: things have changed since it was decided" in text
    assert "executed, approved by anna@ops" in text
    assert "210_awaiting_approval" not in text
    (found,) = told(tell, approved, "explain", approved.round_id)["rounds"]
    plan = found["round"]["plan"]
    assert (plan["phase"], plan["ended"], plan["who"], plan["why"]) == (
        "approved",
        "carried_out",
        "anna@ops",
        "short run",
    )
    assert [one["outcome"] for one in plan["moves"]] == [STALE, "executed"]


def test_a_decision_says_that_it_was_carried_out_and_by_which_entries(approved: Waiting, tell: Tell) -> None:
    left_out, moved = approved.moves
    text = tell(approved, "explain", moved)
    assert "anna@ops approved the plan at" in text
    assert "and this was carried out." in text
    document = told(tell, approved, "explain", moved)
    plan = document["decision"]["plan"]
    assert (plan["part"], plan["outcome"], plan["who"]) == ("move", "executed", "anna@ops")
    assert document["decision"]["outcome"] == "210_awaiting_approval", "as its round wrote it"
    assert document["journal"][0]["decision_id"] == plan["carried_out_as"]
    assert document["journal"][-1]["state"] == "owned"
    assert "but this was left out: things have changed since it was decided." in tell(approved, "explain", left_out)


def test_the_decision_that_carried_it_out_has_the_round_s_figures(approved: Waiting, tell: Tell) -> None:
    of_round = told(tell, approved, "explain", approved.moves[1])["decision"]
    done = told(tell, approved, "explain", of_round["plan"]["carried_out_as"])["decision"]
    assert done["plan"]["part"] == "carries_out"
    assert (done["before"], done["after"]) == (of_round["before"], of_round["after"])
    assert done["reason_words"] == of_round["reason_words"]
    assert "against" in done["reason_words"]


def test_a_bundle_says_it_too(approved: Waiting, tell: Tell) -> None:
    text = tell(approved, "explain", approved.bundle_of(1))
    assert text.count("executed, approved by anna@ops") == 2, "the round's decision and the one that carried it out"
    assert f"{STALE}, approved by anna@ops" in tell(approved, "explain", approved.bundle_of(0))


def test_rounds_and_decisions_list_it(approved: Waiting, tell: Tell) -> None:
    assert "approved by anna@ops" in tell(approved, "rounds")
    rows = {row["round_id"]: row["plan"] for row in told(tell, approved, "rounds")}
    assert rows.pop(approved.round_id)["who"] == "anna@ops"
    assert set(rows.values()) == {None}
    assert "executed, approved by anna@ops" in tell(approved, "decisions", "--round", approved.round_id)


def test_what_was_approved_was_not_held_back_whatever_became_of_it(approved: Waiting, tell: Tell) -> None:
    assert told(tell, approved, "decisions", "--summary")["held_back"] == 0


def test_the_journal_tells_of_plans_in_words(approved: Waiting, tell: Tell) -> None:
    text = tell(approved, "journal", "--kind", "plan")
    for words in ("2 moves wait for approval: ", "approved by anna@ops: short run", "1 move carried out; 1 left out: "):
        assert words in text
    assert "decided_seq" not in text


def test_what_is_behind_a_plan_and_what_was_declined(tmp_path_factory: pytest.TempPathFactory, tell: Tell) -> None:
    story = begin_waiting(tmp_path_factory.mktemp("declined") / "tables")
    assert "2 moves wait for an operator's approval since" in tell(story, "explain", story.round_id)
    assert "waiting" in tell(story, "rounds")
    later = story.run.round()
    story.run.command("decline", round=story.round_id)
    text = tell(story, "explain", story.round_id)
    assert "declined by anna@ops at 2026-" in text
    assert text.count("declined by anna@ops") == 3, "the plan and both moves"
    (row,) = [row for row in told(tell, story, "rounds") if row["round_id"] == later.round_id]
    assert (row["plan"], row["held_back"]) == (None, row["moves"])
    assert "held back" in tell(story, "rounds")
    summary = told(tell, story, "decisions", "--summary")
    assert summary["held_back"] == row["moves"] + len(story.moves)
    assert f"{summary['held_back']} decisions held back: a plan waited" in tell(story, "decisions", "--summary")
    actions = summary["actions"]
    assert f"held back by the plan of {story.round_id}" in {row["outcome"] for row in actions}, "the newest outcome"
    held = EvidenceView(Reader(story.run.settings)).decisions(round_id=later.round_id, skips=False)
    assert held
    assert {row["plan"]["part"] for row in held} == {"behind"}
    assert f"held back by the plan of {story.round_id}" in tell(story, "explain", later.round_id)


def test_status_says_until_when_a_plan_waits_and_until_when_a_declined_one_holds_others_back(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    story = begin_waiting(tmp_path_factory.mktemp("kept") / "tables")

    def plan() -> Any:
        story.run.project()
        with pytest.raises(SystemExit):
            main(["status", "--offline", "--json", "--set", f"tables.root={story.run.root.root}",
                  "--set", "rounds.approve_above=1", "--set", "rounds.approval_minutes=3"])  # fmt: skip
        return json.loads(capsys.readouterr().out)["plan"]

    began = next(e for e in story.run.entries if e.kind is Kind.PLAN)
    waiting = plan()
    assert (waiting["phase"], waiting["until_ms"], waiting["approve_above"]) == ("waiting", began.at_ms + 180_000, 1)
    story.run.command("decline", round=story.round_id)
    declined = [e for e in story.run.entries if e.kind is Kind.PLAN][-1]
    story.run.round()
    kept = plan()
    assert (kept["phase"], kept["until_ms"]) == ("declined", declined.at_ms + 180_000)
    with pytest.raises(SystemExit):
        main(["status", "--offline", "--set", f"tables.root={story.run.root.root}"])
    assert "moves (held back), 0 splits" in capsys.readouterr().out


def test_what_was_held_back_was_not_made_once_the_plan_has_ended(tmp_path_factory: pytest.TempPathFactory) -> None:
    story = begin_waiting(tmp_path_factory.mktemp("overtaken") / "tables")
    story.run.round()
    story.run.command("override", override="avoid", bundle=story.bundle_of(0), broker="b3:8080")
    story.run.project()
    assert story.run.state.plan is None
    view = EvidenceView(Reader(story.run.settings))
    assert [approval_text(row) for row in view.with_plans(view.rounds()[:2])] == ["held back", "overtaken"]
    assert (
        status_of(Reader(story.run.settings), story.run.now_ms, None, "not asked")["last_round"]["approval"]
        == "held back"
    )


@pytest.mark.parametrize("phase", ["waiting", "declined"])
def test_a_move_that_did_not_wait_says_why(tmp_path_factory: pytest.TempPathFactory, tell: Tell, phase: str) -> None:
    story = begin_waiting(tmp_path_factory.mktemp("ahead") / "tables")
    if phase == "declined":
        story.run.command("decline", round=story.round_id)
    story.run.control = replace(story.run.control, overload_limit=0.01)
    later = story.run.round()
    decided = EvidenceView(Reader(story.run.settings)).decisions(round_id=later.round_id, skips=False)
    moved = next(row["decision_id"] for row in decided if row["outcome"] == "executed")
    sentence = "It did not wait for an approval: moves off a broker over its limit never do (b1:8080: "
    waited = sentence in " ".join(tell(story, "explain", moved).split())
    assert waited == (phase == "waiting"), "a declined plan kept nothing of this round back"
    assert bool(told(tell, story, "explain", moved)["ahead"]) == waited


@pytest.mark.parametrize("command", ["approve", "decline"])
def test_who_decides_about_a_plan_says_why(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--why", " "]):
        with pytest.raises(SystemExit) as ended:
            main([command, "1795000000000", *words])
        assert (ended.value.code, "--why" in capsys.readouterr().err) == (2, True)
