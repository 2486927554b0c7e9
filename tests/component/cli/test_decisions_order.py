"""`ballast decisions` is newest first by the time that it prints, also where the journal named rows later."""

from __future__ import annotations

import json
from pathlib import Path

from controller.cli.look.explain import boundary_text
from controller.domain.decision import OF_STEP, Reason
from controller.domain.entries import Entry, Kind
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.evidence_view import EvidenceView
from controller.operations.evidence_words import missed_text
from controller.operations.plans.plan_words import became_text
from controller.operations.reading import Reader
from controller.operations.realised_moves import is_executed_move
from controller.ui.views.words import sentences_of
from tests.short_run import INSTANCE, play


def test_rounds_and_batches_of_the_step_are_in_one_order(tmp_path: Path) -> None:
    """A round's time is that of the loads it saw: its entry comes after those of batches that are newer."""
    run = play(tmp_path / "tables")
    root, reader = TableRoot(run.root.root), Reader(run.settings)
    rows = reader.rows("decisions", "at_ms").sort_by("at_ms").to_pylist()
    late = {**rows[0], "at_ms": rows[0]["at_ms"] + 1, "attempt_id": "late", "decision_id": "late-0000"}
    append_rows(root, "decisions", [late])
    journal = Journal(root.root)
    last = Entry(journal.last_seq + 1, Kind.CONTROLLER_STOPPED, INSTANCE, 999, run.now_ms, attempt_id="late")
    journal.commit([last], INSTANCE, 999)

    found = EvidenceView(reader).decisions()
    assert "late-0000" in {row["decision_id"] for row in found}
    assert len({row["at_ms"] for row in found}) > 2
    assert [row["at_ms"] for row in found] == sorted((row["at_ms"] for row in found), reverse=True)


def test_an_order_that_missed_is_told_and_no_move_is_judged_by_it(tmp_path: Path) -> None:
    """Its decision was executed: what became of it is what the cluster says."""
    run = play(tmp_path / "tables")
    reader = Reader(run.settings)
    moved = [row for row in EvidenceView(reader).decisions() if is_executed_move(row)]
    missed, arrived = moved[0], moved[1]
    journal = Journal(TableRoot(run.root.root).root)
    ends = [
        Entry(
            journal.last_seq + number, Kind.ORDER_ENDED, INSTANCE, 999, run.now_ms, bundle=row["bundle"],
            broker=owner, decision_id=row["decision_id"], data={"id": row["decision_id"], "outcome": outcome},
        )
        for number, (row, owner, outcome) in enumerate(
            [(missed, "broker-9", "elsewhere"), (arrived, arrived["target"], "moved")], start=1
        )
    ]  # fmt: skip
    journal.commit(ends, INSTANCE, 999)

    found = {row["decision_id"]: row for row in EvidenceView(Reader(run.settings)).decisions()}
    assert missed_text(found[missed["decision_id"]]) == "elsewhere: broker-9 owns it"
    assert not is_executed_move(found[missed["decision_id"]])
    assert missed_text(found[arrived["decision_id"]]) == ""
    assert is_executed_move(found[arrived["decision_id"]])
    assert any("elsewhere: broker-9" in text for text in sentences_of(found[missed["decision_id"]]))


def test_a_move_that_waited_for_its_turn_is_told_as_carried_out(tmp_path: Path) -> None:
    """Its row says that it waits; the decision of the control step that sent it names it."""
    run = play(tmp_path / "tables")
    root, reader = TableRoot(run.root.root), Reader(run.settings)
    moved = next(row for row in EvidenceView(reader).decisions() if is_executed_move(row))
    stored = reader.rows("decisions", "at_ms").to_pylist()
    same = ("decision_id", "attempt_id")
    row = next(one for one in stored if all(one[name] == moved[name] for name in same))
    waits = [{**row, "decision_id": f"turn-{number}", "outcome": Reason.IN_TURN.value} for number in range(2)]
    step = f"{OF_STEP}{INSTANCE}-77"
    about = json.dumps({"round": row["round_id"], "decision": "turn-0"})
    sent = {**row, "decision_id": f"{step}-0000", "round_id": step, "attempt_id": "turn", "evidence_json": about}
    append_rows(root, "decisions", [*waits, {**sent, "at_ms": row["at_ms"] + 2_000}])
    journal = Journal(root.root)
    end = Entry(
        journal.last_seq + 1, Kind.ORDER_ENDED, INSTANCE, 999, run.now_ms, bundle=row["bundle"], broker=row["target"],
        decision_id=f"{step}-0000", attempt_id="turn", data={"id": f"{step}-0000", "outcome": "moved"},
    )  # fmt: skip
    journal.commit([end], INSTANCE, 999)

    found = {row["decision_id"]: row for row in EvidenceView(Reader(run.settings)).decisions()}
    carried_out, waiting = found["turn-0"], found["turn-1"]
    assert carried_out["sent_as"] == f"{step}-0000"
    assert carried_out["order"] == {"outcome": "moved", "owner": row["target"]}
    assert is_executed_move(carried_out)
    assert became_text(carried_out) == "executed"
    assert "It waited for its turn, as many orders were open, and was then carried out." in sentences_of(carried_out)
    assert waiting["sent_as"] is None
    assert not is_executed_move(waiting)
    assert any("waits for its turn" in text for text in sentences_of(waiting))


def test_a_question_gets_what_it_leaves_of_all_decisions(tmp_path: Path) -> None:
    """Whatever is read to find them: times first, few columns, or all columns of a few times."""
    run = play(tmp_path / "tables")
    view = EvidenceView(Reader(run.settings))
    everything = view.decisions()
    times = sorted({row["at_ms"] for row in everything})
    for name in sorted({row["bundle"] for row in everything if row["bundle"]} | {"no/such/bundle"}):
        about = [row for row in everything if row["bundle"] == name]
        assert view.decisions(bundle=name) == about
        assert view.decisions(bundle=name, limit=1, from_ms=times[1]) == [r for r in about if r["at_ms"] > times[0]][:1]
        assert view.decisions(bundle=name, skips=False) == [row for row in about if row["kind"] != "skip"]
    for name in sorted({row["source"] for row in everything if row["source"]}):
        about = [row for row in everything if name in (row["source"], row["target"])]
        assert view.decisions(broker=name) == about
        assert view.decisions(broker=name, up_to_ms=times[-2]) == [row for row in about if row["at_ms"] < times[-1]]
    for row in everything[:3]:
        assert row in view.decisions(decision_id=row["decision_id"])
        assert row in view.decisions(round_id=row["round_id"], from_ms=row["at_ms"], up_to_ms=row["at_ms"])


def test_a_broker_and_its_decisions_tell_one_pair_of_figures(tmp_path: Path) -> None:
    """Whether the broker is read alone or with all of its round; what was measured is named beside them."""
    run = play(tmp_path / "tables")
    view = EvidenceView(Reader(run.settings))
    told = set()
    for of_round in view.rounds():
        decisions = view.decisions(round_id=of_round["round_id"])
        alone = {
            row["broker"]: EvidenceView(Reader(run.settings)).score(of_round, row["broker"])
            for row in view.scores(of_round)
        }
        for row in view.scores(of_round):
            assert alone[row["broker"]] == row
            own = [d for d in decisions if d["source"] == row["broker"] and d["reason"] == row["reason"]]
            first = min(own, key=lambda d: d["decision_id"])
            words, by, rest = (row["reason_words"] or "").partition(", by estimate")
            assert words == first["reason_words"]
            assert not by or rest.endswith(f"; {100 * row['score']:.1f} % was measured")
            told.add(rest.partition(";")[0] if by else None)
    assert told >= {None, ", with what it was to get"}


def test_where_an_order_cut_is_told_beside_what_was_decided(tmp_path: Path) -> None:
    run = play(tmp_path / "tables")
    row = next(row for row in EvidenceView(Reader(run.settings)).decisions() if is_executed_move(row))
    data = {"id": row["decision_id"], "outcome": "split", "boundary": 7}
    journal = Journal(TableRoot(run.root.root).root)
    end = Entry(
        journal.last_seq + 1, Kind.ORDER_ENDED, INSTANCE, 999, run.now_ms, bundle=row["bundle"], broker=row["source"],
        decision_id=row["decision_id"], data=data,
    )  # fmt: skip
    journal.commit([end], INSTANCE, 999)

    found = {row["decision_id"]: row for row in EvidenceView(Reader(run.settings)).decisions()}[row["decision_id"]]
    assert found["order"] == {"outcome": "split", "owner": row["source"], "boundary": 7}
    assert boundary_text({**found, "boundary": 9}) == "0x00000009, cut at 0x00000007"
    assert boundary_text({**found, "boundary": 7}) == "0x00000007"
    assert boundary_text({**found, "boundary": 9, "order": None}) == "0x00000009"
    assert boundary_text({**found, "boundary": None}) is None
