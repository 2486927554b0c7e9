"""notebooks/02_why.py explains a move: its figures are those of the entries, the stored evidence and the loads then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from controller.domain.entries import Kind
from controller.domain.ownership import State
from controller.ledger.append import append_rows
from controller.ledger.tables import TableRoot
from tests.component.questions.told import broker_of, first_move_of_a_round
from tests.short_run import HOT, ShortRun
from tests.spark.pages.notebooks import FOLDER, Ran, check_plots, check_source_format, run_notebook
from tests.waiting_plans import play_approved

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
NOTEBOOK = FOLDER / "02_why.py"
LATE = 3  # times the messages that were reported in time


@pytest.fixture(scope="module")
def decision(short_run: ShortRun) -> dict[str, Any]:
    """The stored row of the first move that a round carried out."""
    name = first_move_of_a_round(short_run.entries).decision_id
    rows = short_run.root.open("decisions").to_pyarrow_table().to_pylist()
    return next(row for row in rows if row["decision_id"] == name)


@pytest.fixture(scope="module")
def late(short_run: ShortRun, decision: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The run's tables, into which reports about the moved bundle came in after everything else."""
    folder = tmp_path_factory.mktemp("why") / "tables"
    shutil.copytree(short_run.root.root, folder)
    root = TableRoot(folder)
    rows = root.open("bundle_panes").to_pyarrow_table().to_pylist()
    pane = next(r for r in rows if (r["bundle"], r["pane_end_ms"]) == (decision["bundle"], decision["at_ms"]))
    many = {name: LATE * value for name, value in pane.items() if name.endswith("_sum")}
    append_rows(root, "bundle_panes", [{**pane, **many, "batch_id": 1_000}])
    return str(folder)


@pytest.fixture(scope="module")
def ran(spark: Any, late: str, decision: dict[str, Any]) -> Ran:
    return run_notebook(NOTEBOOK, spark, tables=late, decision=decision["decision_id"])


def test_the_source_format_is_databricks_own() -> None:
    check_source_format(NOTEBOOK, more_cells_than=20)


def test_it_lists_the_moves_of_rounds(ran: Ran, short_run: ShortRun) -> None:
    found = [(row["decision_id"], row["outcome"]) for row in ran.shown["Moves, newest first"]]
    begun = {e.decision_id for e in short_run.entries if e.reason == "102_above_mean"}
    assert {name for name, outcome in found if outcome == "executed"} == begun
    assert {outcome for _, outcome in found} == {"executed", "301_shadow_mode"}
    times = [row["at_time"] for row in ran.shown["Moves, newest first"]]
    assert times == sorted(times, reverse=True)


def test_the_decision_with_its_scores(ran: Ran, decision: dict[str, Any]) -> None:
    (row,) = ran.shown["The decision"]
    before, after = json.loads(decision["before_json"]), json.loads(decision["after_json"])
    source, target = decision["source"], decision["target"]
    assert (row["bundle"], row["source"], row["target"]) == (decision["bundle"], source, target)
    assert (row["source_before_pct"], row["target_before_pct"]) == (
        round(100 * before[source], 1), round(100 * before[target], 1)
    )  # fmt: skip
    assert (row["source_predicted_pct"], row["target_predicted_pct"]) == (
        round(100 * after[source], 1), round(100 * after[target], 1)
    )  # fmt: skip
    assert (row["mode"], row["strategy"]) == ("live", "headroom")


def test_scores_are_those_of_its_round(ran: Ran, short_run: ShortRun, decision: dict[str, Any]) -> None:
    entry = next(e for e in short_run.entries if e.kind is Kind.ROUND and e.attempt_id == decision["attempt_id"])
    scores = sorted(entry.data["memory"]["scores"].items(), key=lambda item: -item[1])
    shown = ran.shown["Scores of the round"]
    assert [(row["broker"], row["score_pct"]) for row in shown] == [(b, round(100 * s, 1)) for b, s in scores]
    assert [row["broker"] for row in shown if row["is_source"]] == [decision["source"]]


def test_candidates_have_their_verdict(ran: Ran, decision: dict[str, Any]) -> None:
    pairs = json.loads(decision["evidence_json"])["pairs"]
    rows = ran.shown["Candidates"]
    assert [(row["bundle"], row["target"]) for row in rows] == [(pair["bundle"], pair["target"]) for pair in pairs]
    assert [row["source_after_pct"] for row in rows] == [round(pair["source_after"] / 100, 1) for pair in pairs]
    (chosen,) = (row for row in rows if row["verdict"] == "chosen")
    assert (chosen["bundle"], chosen["target"]) == (decision["bundle"], decision["target"])
    lost = {row["verdict"] for row in rows} - {"chosen", "allowed"}
    assert lost == {pair["lost_by"] for pair in pairs if pair["lost_by"]}


def test_the_owners_of_that_moment(ran: Ran, short_run: ShortRun, decision: dict[str, Any]) -> None:
    """Nothing but first assignments had happened until then."""
    found = {
        row["broker"]: (row["bundles_then"], row["bundles_now"])
        for row in ran.shown["Bundles of each broker, then and now"]
    }
    first = next(e.seq for e in short_run.entries if e.kind is Kind.ROUND and e.attempt_id == decision["attempt_id"])
    owned = [broker_of(e.by) for e in short_run.entries if e.seq < first and e.state == "owned"]
    now = [r.by.broker for r in short_run.state.bundles.values() if r.by and r.state is not State.RETIRED]
    assert found == {broker: (owned.count(broker), now.count(broker)) for broker in set(owned) | set(now)}
    assert sum(then for then, _ in found.values()) == 11
    assert sum(now for _, now in found.values()) == 13


def test_loads_are_told_as_they_were_read(ran: Ran, short_run: ShortRun, decision: dict[str, Any]) -> None:
    rows = {row["bundle"]: row for row in ran.shown["Bundles of the source"]}
    first = next(e.seq for e in short_run.entries if e.decision_id == decision["decision_id"])
    owned = {
        e.bundle
        for e in short_run.entries
        if e.seq < first and e.state == "owned" and broker_of(e.by) == decision["source"]
    }
    assert rows.keys() == owned
    moved = rows[decision["bundle"]]
    assert [name for name, row in rows.items() if row["moved"]] == [decision["bundle"]]
    assert moved["messages_read"] == pytest.approx(2 * HOT, rel=0.03)
    # three panes of two reports were read; two more reports came in later, three times as high
    assert moved["messages_known_now"] == pytest.approx(2 * HOT * (6 + 2 * LATE) / 8, rel=0.03)
    assert sum(row["of_source_pct"] for row in rows.values()) == pytest.approx(100, abs=0.3)
    for name, row in rows.items():
        if name != decision["bundle"]:
            assert row["messages_known_now"] == row["messages_read"]
    assert ran.names["version"] < short_run.root.open("bundle_panes").version()


def test_the_window_is_that_of_the_rounds_configuration(
    ran: Ran, spark: Any, short_run: ShortRun, decision: dict[str, Any], tmp_path: Path
) -> None:
    """A longer one told of bundles that the source had given away before."""
    assert ran.rows("chosen_move")[0]["window_ms"] == 1_000 * short_run.settings.loads.short_horizon_s
    folder = tmp_path / "tables"
    shutil.copytree(short_run.root.root, folder)
    shutil.rmtree(folder / "config_history")
    TableRoot(folder).create_all()
    with pytest.raises(ValueError, match=r"is not in config_history: set the widget window_s"):
        run_notebook(NOTEBOOK, spark, tables=folder, decision=decision["decision_id"])
    given = run_notebook(NOTEBOOK, spark, tables=folder, decision=decision["decision_id"], window_s=90)
    assert given.rows("chosen_move")[0]["window_ms"] == 90_000


def test_a_version_that_is_gone_is_said(spark: Any, late: str, decision: dict[str, Any], tmp_path: Path) -> None:
    """Older versions of the table cannot be read any more: the newest rows are told twice."""
    folder = tmp_path / "tables"
    shutil.copytree(late, folder)
    log = folder / "bundle_panes" / "_delta_log"
    TableRoot(folder).open("bundle_panes").create_checkpoint()
    for file in sorted(log.glob("*.json"))[:-1]:
        file.unlink()
    gone = run_notebook(NOTEBOOK, spark, tables=folder, decision=decision["decision_id"])
    assert gone.names["version"] is None
    rows = gone.shown["Bundles of the source"]
    assert all(row["messages_read"] == row["messages_known_now"] for row in rows)


def test_what_came_of_it(ran: Ran, short_run: ShortRun, decision: dict[str, Any]) -> None:
    rows = ran.shown["Handover"]
    of = [e for e in short_run.entries if e.decision_id == decision["decision_id"] and e.kind is Kind.OWNERSHIP]
    assert [(row["seq"], row["state"]) for row in rows] == [(e.seq, e.state) for e in of]
    assert [row["after_ms"] for row in rows] == [e.at_ms - of[0].at_ms for e in of]
    assert (rows[-1]["state"], rows[-1]["by_broker"]) == ("owned", decision["target"])
    course = ran.shown["Scores of source and target"]
    assert {row["broker"]: row["role"] for row in course} == {
        decision["source"]: "source",
        decision["target"]: "target",
    }
    source = [row["score_pct"] for row in course if row["role"] == "source"]
    highest = next(row["score_pct"] for row in reversed(course) if row["role"] == "source" and not row["afterwards"])
    assert source[-1] < highest, "it was relieved"
    check_plots(ran, 2)


def test_without_a_name_it_is_the_newest_move(spark: Any, short_run: ShortRun) -> None:
    newest = run_notebook(NOTEBOOK, spark, tables=short_run.root.root)
    (row,) = newest.shown["The decision"]
    last = [e.decision_id for e in short_run.entries if e.reason == "102_above_mean"][-1]
    assert row["decision_id"] == last


def test_a_name_that_no_move_has_is_refused(spark: Any, short_run: ShortRun) -> None:
    with pytest.raises(ValueError, match="no move of a round is named 'nothing'"):
        run_notebook(NOTEBOOK, spark, tables=short_run.root.root, decision="nothing")


def test_a_move_that_waited_for_an_approval_is_told_as_it_ended(spark: Any, tmp_path: Path) -> None:
    story = play_approved(tmp_path / "tables")
    left_out, moved = story.moves
    ran = run_notebook(NOTEBOOK, spark, tables=story.run.root.root, decision=moved, window_s=30)
    outcomes = {row["decision_id"]: row["outcome"] for row in ran.shown["Moves, newest first"]}
    assert (outcomes[moved], outcomes[left_out]) == ("executed", "408_state_has_moved_on")
    assert [row["state"] for row in ran.shown["Handover"]][-1] == "owned"
    decided = run_notebook(FOLDER / "01_operations.py", spark, tables=story.run.root.root).shown["Decided"]
    assert {row["decision_id"] for row in decided if row["outcome"] == "executed"} == {moved}
    newest = run_notebook(NOTEBOOK, spark, tables=story.run.root.root, window_s=30)
    assert newest.shown["The decision"][0]["decision_id"] == moved, "the only one that was carried out"
