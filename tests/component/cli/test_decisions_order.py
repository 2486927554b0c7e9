"""`ballast decisions` is newest first by the time that it prints, also where the journal named rows later."""

from __future__ import annotations

from pathlib import Path

from controller.domain.entries import Entry, Kind
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
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
