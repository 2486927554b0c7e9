"""What the worker says of its moves while it runs is what `ballast explain` says of them afterwards."""

from __future__ import annotations

import pytest

from controller.domain.events import RoundFinished
from controller.operations.evidence_view import EvidenceView
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
        run._send("round_now", {})
        done = rounds.advance()
        assert done is not None
        found += rounds.gains.judge()
        run.batch(*map(RoundFinished, done.results))
        run.settle()
    rounds.finish()
    found += rounds.gains.judge()
    assert rounds.gains.judge() == (), "each move once"
    assert len(rounds.gains._rounds) < ROUNDS, "rounds are forgotten"
    return found


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
