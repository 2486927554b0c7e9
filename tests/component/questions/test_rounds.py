"""Questions about rounds and their decisions, in DuckDB, compared with the run's entries and stored evidence."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.domain.decision import OF_STEP
from controller.domain.entries import Entry, Kind
from tests.questions import DuckQuestions
from tests.short_run import ShortRun


def rounds_of(run: ShortRun) -> list[Entry]:
    """The entries of rounds that count."""
    return [e for e in run.entries if e.kind is Kind.ROUND]


def scores_of(entry: Entry) -> dict[str, float]:
    """Broker -> score, as the round remembers them."""
    return dict(entry.data["memory"]["scores"])


def counted_decisions(run: ShortRun) -> list[dict[str, Any]]:
    """The stored decisions of the rounds that count."""
    named = {e.attempt_id for e in rounds_of(run)}
    rows = run.root.open("decisions").to_pyarrow_table().to_pylist()
    return [row for row in rows if row["attempt_id"] in named and not row["round_id"].startswith(OF_STEP)]


@pytest.mark.covers("decision-breakdown")
def test_03_what_was_decided_against_has_its_reason(ask: DuckQuestions, run: ShortRun) -> None:
    found = {(row["broker"], row["kind"], row["reason"], row["outcome"]): row["times"] for row in ask(3)}
    assert found == Counter(
        (row["source"], row["kind"], row["reason"], row["outcome"] or "decided against")
        for row in counted_decisions(run)
        if not row["executed"]
    )
    assert {name[1:] for name in found} >= {
        ("skip", "200_hit_count", "decided against"),
        ("transfer", "102_above_mean", "301_shadow_mode"),
        ("skip", "100_balanced", "decided against"),
    }


def test_06_scores_are_those_that_rounds_remember(ask: DuckQuestions, run: ShortRun) -> None:
    rows = ask(6)
    expected = [
        (broker, round(100 * score, 1))
        for entry in rounds_of(run)
        for broker, score in sorted(scores_of(entry).items())
    ]
    assert [(row["broker"], row["score_pct"]) for row in rows] == expected, "also without the round that never counted"
    sources = {row["broker"] for row in rows if row["is_source"]}
    assert sources == {row["source"] for row in counted_decisions(run) if row["kind"] in ("transfer", "split")}
    assert all(row["memory_pct"] == 30.0 for row in rows)


def test_07_quarantine_is_counted_by_rule(ask: DuckQuestions) -> None:
    rows = ask(7)
    found = Counter((row["topic"], row["rule"]) for row in rows for _ in range(row["records"]))
    assert found == {
        ("commands", "not_json"): 1,
        ("commands", "version"): 1,
        ("broker-events", "not_json"): 1,
        ("broker-events", "event_kind"): 1,
    }
    dance = next(row for row in rows if row["rule"] == "event_kind")
    assert dance["last_text"].startswith("'dance' is none of")
    assert dance["last_place"] == "0@2"


def test_10_predictions_are_compared_with_later_rounds(ask: DuckQuestions, run: ShortRun) -> None:
    (row,) = ask(10)
    moves = [r for r in counted_decisions(run) if r["kind"] == "transfer" and r["executed"]]
    first = min(r["at_ms"] for r in moves)
    assert (row["source"], row["moves"]) == ("b1:8080", sum(r["at_ms"] == first for r in moves))
    before = next(e for e in rounds_of(run) if e.data["at_ms"] == first)
    after = next(e for e in rounds_of(run) if e.data["at_ms"] >= first + 60_000)
    assert row["before_pct"] == round(100 * scores_of(before)["b1:8080"], 1)
    assert row["realised_pct"] == round(100 * scores_of(after)["b1:8080"], 1)
    assert row["predicted_pct"] < row["before_pct"]
    assert row["missed_by_points"] == pytest.approx(row["realised_pct"] - row["predicted_pct"], abs=0.11)


def test_10_changes_are_compared_where_the_strategy_judges_by_estimates(run: ShortRun) -> None:
    judged_higher = DuckQuestions(run.root.root)
    (row,) = judged_higher(10)
    (seen,) = judged_higher("SELECT max(source_before) AS judged FROM decisions WHERE executed")
    judged_higher.db.execute("CREATE TEMP TABLE moved_up AS SELECT * FROM decisions_files")
    for column in ("before_json", "after_json"):
        raised = f"(SELECT json_group_object(e.key, e.value::DOUBLE + 0.1) FROM json_each({column}) e)"
        judged_higher.db.execute(f"UPDATE moved_up SET {column} = {raised} WHERE kind = 'transfer'")
    judged_higher.db.execute("CREATE OR REPLACE TEMP VIEW decisions_files AS SELECT * FROM moved_up")
    (estimate,) = judged_higher("SELECT max(source_before) AS judged FROM decisions WHERE executed")
    (found,) = judged_higher(10)
    judged_higher.db.close()
    assert estimate["judged"] == pytest.approx(seen["judged"] + 0.1)
    for column in ("before_pct", "predicted_pct", "realised_pct", "missed_by_points"):
        assert found[column] == pytest.approx(row[column], abs=0.11), "a tenth more than was measured, before and after"


def test_11_balance_round_by_round(ask: DuckQuestions, run: ShortRun) -> None:
    rows, rounds = ask(11), rounds_of(run)
    assert [row["mode"] for row in rows] == [e.data["mode"] for e in rounds]
    assert [row["busiest_pct"] for row in rows] == [round(100 * max(scores_of(e).values()), 1) for e in rounds]
    means = [sum(scores_of(e).values()) / len(scores_of(e)) for e in rounds]
    assert [row["mean_pct"] for row in rows] == pytest.approx([100 * mean for mean in means], abs=0.06)
    assert [row["busiest_to_mean"] for row in rows] == pytest.approx(
        [max(scores_of(e).values()) / mean for e, mean in zip(rounds, means, strict=True)], abs=0.006
    )
    assert [(row["moves"], row["splits"]) for row in rows] == [
        (e.data["counts"].get("transfer", 0), e.data["counts"].get("split", 0)) for e in rounds
    ]
    done = Counter(row["attempt_id"] for row in counted_decisions(run) if row["executed"])
    assert [row["carried_out"] for row in rows] == [done[e.attempt_id] for e in rounds]
    assert rows[2]["moves"] > rows[2]["carried_out"] == 0, "decided in shadow"


def test_20_without_challengers_there_is_the_strategy_in_charge(ask: DuckQuestions, run: ShortRun) -> None:
    (row,) = ask(20)
    assert (row["strategy"], row["role"], row["rounds"]) == ("headroom", "in charge", len(rounds_of(run)))
    assert row["moves"] == row["moves_in_common"] == sum(e.data["counts"].get("transfer", 0) for e in rounds_of(run))


def test_20_challengers_are_compared_with_the_strategy_in_charge(
    ask_challenged: DuckQuestions, challenged: ShortRun
) -> None:
    rows = ask_challenged(20)
    assert [(row["strategy"], row["role"]) for row in rows] == [
        ("headroom", "in charge"), ("average", "challenger"), ("uniform", "challenger")
    ]  # fmt: skip
    assert {row["rounds"] for row in rows} == {4}
    wanted = [row for row in counted_decisions(challenged) if row["kind"] == "transfer"]
    ours = {(row["round_id"], row["bundle"]) for row in wanted if not row["challenger"]}
    for row in rows:
        theirs = [r for r in wanted if r["strategy"] == row["strategy"]]
        assert row["moves"] == len(theirs)
        assert row["moves_in_common"] == sum((r["round_id"], r["bundle"]) in ours for r in theirs)
    assert any(row["moves"] for row in rows[1:]), "no challenger wanted anything: the comparison would say little"


def test_other_questions_leave_challengers_out(ask_challenged: DuckQuestions, challenged: ShortRun) -> None:
    in_charge = [e for e in rounds_of(challenged) if not e.data.get("challenger")]
    assert len(ask_challenged(11)) == len(in_charge) == 4
    assert len(ask_challenged(6)) == 3 * len(in_charge)
    assert "challenger" not in {row["outcome"] for row in ask_challenged(3)}
