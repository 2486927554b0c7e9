"""A round's time begins with the commit of the loads that it waits for, and ends with its journal entry."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.measure.loads import round_times
from benchmarks.measure.loads.round_times import RoundTimes
from benchmarks.measure.result import NotMeasured
from controller.config.load import load_settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry, Kind
from controller.ledger.append import append
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from schemas.arrow import arrow_table
from schemas.catalog import TABLES
from tests.component.loads.pane_rows import broker_pane

T_MS, EVERY_MS = 1_790_000_000_000, 10_000


def commit_loads(tables: TableRoot, until_ms: int, batch: int) -> None:
    append(tables, "broker_panes", arrow_table(TABLES["broker_panes"], [broker_pane(until_ms, batch)]), "w", batch)


def test_only_a_round_that_was_seen_to_become_due_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = (f"tables.root={tmp_path}", f"rounds.round_interval_s={EVERY_MS // 1000}")
    settings = load_settings(None, overrides=sets, env={})
    tables = table_root(settings)
    tables.create_all()
    commit_loads(tables, T_MS, 0)
    commit_loads(tables, T_MS + 6 * EVERY_MS, 1)
    clock_s = iter(range(100))
    monkeypatch.setattr(round_times.time, "monotonic", lambda: float(next(clock_s)))
    times = RoundTimes(settings)
    (before_ms,) = times._due_at_s
    with pytest.raises(NotMeasured, match="did loads arrive"):
        times.figures()
    commit_loads(tables, T_MS + 7 * EVERY_MS, 2)
    times.poll()
    due_ms = before_ms + EVERY_MS
    journal = Journal(tables)
    rounds = [Entry(seq, Kind.ROUND, "c", seq, seq, data={"at_ms": at_ms, "round_id": str(at_ms)})
              for seq, at_ms in ((1, before_ms), (2, due_ms))]  # fmt: skip
    journal.commit(rounds, "c", 1)
    times.poll()
    rows = pa.table({"at_ms": [before_ms, due_ms], "duration_ms": [70, 80]})
    monkeypatch.setattr(round_times, "read_joined", lambda *_: rows)
    found = times.figures()
    assert found["due_to_journaled_s"]["count"] == found["computed_s"]["count"] == 1
    assert found["computed_s"]["max"] == 0.08
    assert found["due_to_journaled_s"]["max"] > 0
