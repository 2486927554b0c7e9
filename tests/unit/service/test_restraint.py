"""Moves that bring too little: first the prior, then the controller is told; what they bring again ends it."""

from __future__ import annotations

from controller.policy.usage.judged import Judged
from controller.service.rounds.restraint import MOVES, Restraint


def ends(count: int, realised: float | None, predicted: float = -0.1, moves: int = 1) -> list[Judged]:
    return [Judged(0, "a:1", moves, predicted, 0.02, realised, "" if realised is not None else "saturated")] * count


def test_too_little_drops_the_model_first_and_is_told_once_the_prior_does_no_better() -> None:
    restraint = Restraint(0.3)
    assert not restraint.note(ends(MOVES - 1, -0.01))
    assert restraint.note(ends(1, -0.01))
    assert restraint.take_untold() is None
    assert not restraint.note(ends(MOVES, -0.02))
    found = restraint.take_untold()
    assert found is not None
    assert (found.moves, round(found.predicted, 6), round(found.realised, 6)) == (MOVES, 5.0, 1.0)
    assert restraint.take_untold() is None


def test_what_is_as_predicted_again_begins_anew_with_the_model() -> None:
    restraint = Restraint(0.3)
    assert restraint.note(ends(MOVES, -0.01))
    assert not restraint.note(ends(MOVES, -0.09))
    assert restraint.note(ends(MOVES, 0.0))  # the newest moves alone count
    assert restraint.take_untold() is None


def test_ends_that_are_not_judged_and_targets_do_not_count() -> None:
    restraint = Restraint(0.3)
    assert not restraint.note(ends(MOVES, None))
    assert not restraint.note(ends(MOVES, 0.0, predicted=0.1))
    assert not restraint.note(ends(MOVES - 1, 0.0))
    assert restraint.note(ends(1, 0.0))


def test_moves_that_were_made_together_count_as_many() -> None:
    restraint = Restraint(0.3)
    assert restraint.note(ends(5, -0.01, moves=10))


def test_without_the_setting_nothing_is_done() -> None:
    restraint = Restraint(None)
    assert not restraint.note(ends(10 * MOVES, 0.0))
    assert restraint.take_untold() is None
