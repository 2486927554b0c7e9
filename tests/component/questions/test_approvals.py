"""What SQL tells of a plan that waited and was approved: who approved, the prediction, what it brought."""

from __future__ import annotations

import pytest

from controller.domain.entries import Kind
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
from tests.questions import DuckQuestions
from tests.waiting_plans import Waiting


def test_02_an_approved_move_has_the_round_s_prediction_and_who_approved(
    ask_approved: DuckQuestions, approved: Waiting
) -> None:
    (of_round,) = EvidenceView(Reader(approved.run.settings)).decisions(decision_id=approved.moves[1])
    begun = [row for row in ask_approved(2, bundle=approved.bundle_of(1)) if row["reason"] == "102_above_mean"]
    (row,) = begun
    assert row["decision_id"] == of_round["plan"]["carried_out_as"]
    assert (row["approved_by"], row["why"], row["commanded_by"]) == ("anna@ops", "short run", None)
    source = of_round["source"]
    assert (row["source_before"], row["source_predicted"]) == (of_round["before"][source], of_round["after"][source])


def test_02_what_was_left_out_of_the_plan_moved_by_the_command(ask_approved: DuckQuestions, approved: Waiting) -> None:
    rows = ask_approved(2, bundle=approved.bundle_of(0))
    assert {row["approved_by"] for row in rows} == {None}
    assert {row["commanded_by"] for row in rows} == {None, "anna@ops"}


def test_10_approved_moves_are_compared_from_when_they_were_made(
    ask_approved: DuckQuestions, approved: Waiting
) -> None:
    (of_round,) = EvidenceView(Reader(approved.run.settings)).decisions(decision_id=approved.moves[1])
    (row,) = ask_approved(10)
    assert (row["source"], row["moves"], row["approved_by"]) == ("b1:8080", 1, "anna@ops")
    measured = next(e for e in approved.run.entries if e.attempt_id == of_round["attempt_id"])
    before_pct = 100 * measured.data["memory"]["scores"]["b1:8080"]
    assert before_pct > 100 * of_round["before"]["b1:8080"] + 1, "the plan had a move before this one, left out"
    assert row["before_pct"] == pytest.approx(before_pct, abs=0.06)
    change_pct = 100 * (of_round["after"]["b1:8080"] - of_round["before"]["b1:8080"])
    assert row["predicted_pct"] == pytest.approx(before_pct + change_pct, abs=0.06)
    carried_out = next(e for e in approved.run.entries if e.kind is Kind.PLAN and e.reason == "carried_out")
    assert row["at_time"].timestamp() * 1_000 == pytest.approx(carried_out.at_ms, abs=1)
    last = [e for e in approved.run.entries if e.kind is Kind.ROUND][-1]
    assert row["realised_pct"] == pytest.approx(100 * last.data["memory"]["scores"]["b1:8080"], abs=0.06)


def test_03_what_an_approval_left_out_has_its_reason(ask_approved: DuckQuestions) -> None:
    left = {row["outcome"]: row["times"] for row in ask_approved(3) if row["kind"] == "transfer"}
    assert left == {"408_state_has_moved_on": 1}


def test_12_an_approved_plan_is_a_cause_of_its_own(ask_approved: DuckQuestions) -> None:
    causes = {(row["wanted_by"], row["reason"]): row["moves"] for row in ask_approved(12)}
    assert causes == {("approved plan", "102_above_mean"): 1, ("command", "commanded"): 1}
