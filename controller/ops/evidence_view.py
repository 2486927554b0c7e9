"""Rounds, decisions and scores as operators read them: only rows whose attempt a journal entry names.

Evidence is written before the journal, so a row that no entry names belongs to a round that never counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.entries import Kind
from controller.ops.reading import Reader
from schemas.evidence_tables import BROKER_SCORES, DECISIONS, ROUNDS

CLOCK_SLACK_MS = 600_000  # evidence carries the wall time of its write, the journal the time of its batch
JSON_COLUMNS = ("evidence_json", "before_json", "after_json")
Row = dict[str, Any]


class EvidenceView:
    """One look at the evidence; what was read is kept for the life of the object."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rounds: list[Row] | None = None

    def rounds(self) -> list[Row]:
        """All rounds that count, newest first, without their inputs; `seq` is the journal's entry."""
        if self._rounds is None:
            columns = [name for name in ROUNDS.names if name != "inputs_json"]
            rows = self._reader.rows("rounds", "wall_ms", columns=columns).to_pylist()
            since_ms = min((row["wall_ms"] for row in rows), default=0) - CLOCK_SLACK_MS
            named = self._attempts(since_ms) if rows else {}
            counted = [{**row, "seq": named[row["attempt_id"]]} for row in rows if row["attempt_id"] in named]
            self._rounds = sorted(counted, key=lambda row: row["seq"], reverse=True)
        return self._rounds

    def last_round(self) -> Row | None:
        """The newest round of the strategy in charge."""
        return next((row for row in self.rounds() if not row["challenger"]), None)

    def decisions(
        self,
        round_id: str | None = None,
        broker: str | None = None,
        bundle: str | None = None,
        decision_id: str | None = None,
        skips: bool = True,
    ) -> list[Row]:
        """Decisions that count and match, newest round first, in the round's order; JSON columns are parsed."""
        order = {row["attempt_id"]: number for number, row in enumerate(self.rounds())}
        table = self._counted("decisions", order)
        for column, wanted in (("round_id", round_id), ("bundle", bundle), ("decision_id", decision_id)):
            if wanted is not None:
                table = table.filter(pc.equal(table[column], wanted))
        if broker is not None:
            table = table.filter(pc.or_kleene(pc.equal(table["source"], broker), pc.equal(table["target"], broker)))
        if not skips:
            table = table.filter(pc.not_equal(table["kind"], "skip"))
        rows = [_parsed(row) for row in table.to_pylist()]
        return sorted(rows, key=lambda row: (order[row["attempt_id"]], row["decision_id"]))

    def scores(self, attempt_id: str) -> list[Row]:
        """The scores of one round's attempt, highest first."""
        rows: list[Row] = self._counted("broker_scores", {attempt_id}).to_pylist()
        return sorted(rows, key=lambda row: (-(row["score"] if row["score"] is not None else -1.0), row["broker"]))

    def _counted(self, name: str, attempts: Iterable[str]) -> pa.Table:
        record = {"decisions": DECISIONS, "broker_scores": BROKER_SCORES}[name]
        rows = self._reader.rows(name, "at_ms", columns=list(record.names))
        wanted = pa.array(list(attempts), pa.string())
        return rows.filter(pc.is_in(rows["attempt_id"].cast(pa.string()), value_set=wanted))

    def _attempts(self, since_ms: int) -> dict[str, int]:
        """Attempt id -> seq of the journal's round entry that names it."""
        entries = self._reader.rows("journal", "at_ms", above=since_ms, columns=["seq", "kind", "attempt_id"])
        rounds = entries.filter(pc.equal(entries["kind"], Kind.ROUND.value))
        return dict(zip(rounds["attempt_id"].to_pylist(), rounds["seq"].to_pylist(), strict=True))


def _parsed(row: Mapping[str, Any]) -> Row:
    result = {name: value for name, value in row.items() if name not in JSON_COLUMNS}
    return result | {name.removesuffix("_json"): json.loads(row[name]) if row[name] else {} for name in JSON_COLUMNS}
