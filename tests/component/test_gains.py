"""What the worker says of its moves while it runs is what `ballast explain` says of them afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.domain.decision import EXECUTED
from controller.domain.events import RoundFinished
from controller.operations.evidence_view import EvidenceView
from controller.operations.plans.kept_plans import CARRIES_OUT
from controller.operations.reading import Reader
from controller.operations.realised_moves import is_executed_move, judge_moves
from controller.policy.usage.judged import NOT_YET, Judged
from controller.service.rounds.gains import Gains
from controller.service.rounds.process import Rounds
from tests.short_run import ShortRun, begin_skewed

ROUNDS = 14  # moves are judged when three rounds have been decided after a window of 40 s


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """Three brokers, the first of them hot, before its first round."""
    return begin_skewed(tmp_path_factory.mktemp("gains"), brokers=3, bundles=12, hot=3)


@pytest.fixture(scope="module")
def judged(run: ShortRun) -> list[Judged]:
    """What the worker says while the rounds go on."""
    rounds = Rounds(run.settings, every_round=False)
    found: list[Judged] = []
    for _ in range(ROUNDS):
        run.panes(1)
        found += play_round(run, rounds)
    rounds.finish()
    found += rounds.gains.judge()
    assert rounds.gains.judge() == (), "each move once"
    assert len(rounds.gains._rounds) < ROUNDS, "rounds are forgotten"
    return found


def play_round(run: ShortRun, rounds: Rounds) -> list[Judged]:
    """One round and what it decides; returns what the worker can judge by then."""
    run._send("round_now", {})
    done = rounds.advance()
    assert done is not None
    judged = rounds.gains.judge()
    run.batch(*map(RoundFinished, done.results))
    run.settle()
    return [*judged]


def test_they_are_those_of_the_stored_rounds(run: ShortRun, judged: list[Judged]) -> None:
    reader = Reader(run.settings)
    view = EvidenceView(reader)
    moved = [row for row in view.decisions(skips=False) if is_executed_move(row)]
    stored = [row for row in judge_moves(view, moved, reader.window_ms) if row["why_not"] != NOT_YET]
    assert len(judged) >= 2, "a source and a target at least"
    assert any(end.realised is not None for end in judged)
    facts = ("broker", "moves", "predicted", "half_width", "realised")
    assert sorted(str([getattr(end, name) for name in facts]) for end in judged) == sorted(
        str([row[name] for name in facts]) for row in stored
    )


def test_an_error_costs_the_figures_and_nothing_else(
    run: ShortRun, judged: list[Judged], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = Rounds(run.settings, every_round=False)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Gains, "_judge", fail)
    run.panes(1)
    for _ in range(2):
        run._send("round_now", {})
        done = rounds.advance()
        assert done is not None
        run.batch(*map(RoundFinished, done.results))
        rounds.gains.judge()
    assert "the gains of the newest moves are not known" in caplog.text


def test_moves_that_waited_for_an_approval_count_in_the_round_in_whose_time_they_were_carried_out(
    tmp_path: Path,
) -> None:
    run = begin_skewed(tmp_path, brokers=3, bundles=12, hot=3)
    run.control = replace(run.control, approve_above=0)
    rounds = Rounds(run.settings, every_round=False)
    found: list[Judged] = []
    waiting: list[str] = []
    for _ in range(ROUNDS):
        run.panes(1)
        if run.state.plan is not None:
            waiting.append(run.state.plan.round_id)
            if len(waiting) == 3:  # two rounds later
                run.command("approve", round=waiting[0])
                run.panes(1)
        found += play_round(run, rounds)
    rounds.finish()
    found += rounds.gains.judge()

    approved = waiting[0]
    reader = Reader(run.settings)
    view = EvidenceView(reader)
    (plan,) = (one for one in view.plans() if one["round_id"] == approved)
    carried_out = {move["decision_id"] for move in plan["moves"] if move["outcome"] == EXECUTED}
    assert carried_out
    of_round = view.decisions(round_id=approved, skips=False)
    stored = judge_moves(view, of_round, reader.window_ms)
    assert {one for row in stored for one in row["decisions"]} == carried_out
    order = [row["round_id"] for row in reversed(view.rounds())]
    assert {order.index(row["round_id"]) - order.index(approved) for row in stored} == {2}
    facts = ("broker", "moves", "predicted", "half_width", "realised")
    told = [[getattr(end, name) for name in facts] for end in found]
    assert any(end.realised is not None for end in found)
    assert all([row[name] for name in facts] in told for row in stored)
    (step, *_) = (row for row in view.decisions(skips=False) if row["plan"] and row["plan"]["part"] == CARRIES_OUT)
    assert judge_moves(view, [step], reader.window_ms), "the decision that carried a move out tells it, too"
