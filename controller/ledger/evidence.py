"""Writes and reads the evidence of rounds: the tables `rounds`, `decisions` and `broker_scores`.

The control step's own decisions have rows in `decisions` alone.

Evidence is written before the journal's entries that name its attempt, so a crash in between leaves rows that no entry
names and that do not count. `read_joined` therefore joins the evidence with the journal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.decision import EXECUTED, MOVES, Decision, DecisionKind, RoundResult
from controller.domain.entries import Kind
from controller.domain.load import RESOURCES
from controller.ledger.append import append, append_rows
from controller.ledger.files import retry_on_vacuum
from controller.ledger.tables import TableRoot, as_root
from controller.process import failpoints
from schemas.arrow import arrow_schema
from schemas.catalog import TABLES
from schemas.evidence_tables import DECISIONS

# Kinds of entries that name attempts.
NAMING = (Kind.ROUND.value, Kind.OWNERSHIP.value, Kind.ORDER.value, Kind.OFFSETS.value)
_OF_DECISION = {
    "decision_id": "id",
    **{name: name for name in ("bundle", "source", "target", "epoch", "boundary", "strategy")},
}  # column -> field
EVIDENCE_TABLES = ("rounds", "decisions", "broker_scores")


class RoundEvidence(Protocol):
    """A round's evidence as the control step returns it (`controller.control.context.Evidence`)."""

    @property
    def result(self) -> RoundResult:
        """The round's result."""

    @property
    def outcomes(self) -> Mapping[str, str]:
        """Decision id -> `executed`, or the reason code why not; skips have no outcome."""

    @property
    def attempt_id(self) -> str:
        """The attempt that the journal's `round` entry names."""

    @property
    def mode(self) -> str:
        """The cluster's mode at that time."""


def write_evidence(
    root: TableRoot | str | Path, evidence: RoundEvidence, wall_ms: int, duration_ms: int | None = None
) -> None:
    """Append the rows of one round to the three tables. Call this before the journal's commit.

    A retry needs a new attempt id, because a second call for the same attempt would duplicate its rows.
    """
    tables = as_root(root)
    append_rows(tables, "broker_scores", score_rows(evidence))
    failpoints.reach("evidence.write")
    append_rows(tables, "decisions", decision_rows(evidence))
    append_rows(tables, "rounds", [round_row(evidence, wall_ms, duration_ms)])


class StepDecisions(Protocol):
    """A batch's decisions outside of rounds (`controller.control.step_decisions.StepEvidence`)."""

    @property
    def round_id(self) -> str:
        """`step-<instance>-<batch>`."""

    @property
    def instance(self) -> str:
        """The controller instance."""

    @property
    def batch_id(self) -> int:
        """The batch of that instance."""

    @property
    def attempt_id(self) -> str:
        """The attempt that the journal's entries name."""

    @property
    def at_ms(self) -> int:
        """Wall-clock time of the batch."""

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decisions in order."""

    @property
    def outcomes(self) -> Mapping[str, str]:
        """Decision id -> `executed`, or the reason code why not."""


def write_step_decisions(root: TableRoot | str | Path, found: StepDecisions) -> None:
    """Append the rows of one batch to `decisions` in one commit, unless the batch has been written already."""
    failpoints.reach("evidence.step")
    append(as_root(root), DECISIONS.name, step_table(found), f"step-{found.instance}", found.batch_id)


def step_table(found: StepDecisions) -> pa.Table:
    """The rows of `decisions`, built by column because a batch may have thousands of them."""
    decisions, outcomes = found.decisions, [found.outcomes[d.id] for d in found.decisions]
    columns: dict[str, Sequence[Any]] = {
        name: [getattr(decision, field) for decision in decisions] for name, field in _OF_DECISION.items()
    }
    columns |= {name: [getattr(d, name).value for d in decisions] for name in ("kind", "label", "reason")}
    columns |= {
        f"{name}_json": [_json(getattr(decision, name)) for decision in decisions]
        for name in ("evidence", "before", "after")
    }
    columns |= {
        "round_id": [found.round_id] * len(decisions),
        "attempt_id": [found.attempt_id] * len(decisions),
        "at_ms": [found.at_ms] * len(decisions),
        "band": [decision.reason.band for decision in decisions],
        "challenger": [False] * len(decisions),
        "executed": [outcome == EXECUTED for outcome in outcomes],
        "outcome": outcomes,
    }
    schema = arrow_schema(DECISIONS)
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema}, schema=schema)


def read_joined(root: TableRoot | str | Path, name: str) -> pa.Table:
    """The rows of an evidence table whose attempt the journal names, in no order. Empty before the tables exist."""
    tables = as_root(root)
    schema = arrow_schema(TABLES[name])
    if not tables.exists(name) or not tables.exists("journal"):
        return schema.empty_table()

    def read() -> pa.Table:
        journal = tables.open("journal").to_pyarrow_dataset(filesystem=tables.log("journal").data_files)
        named = journal.to_table(columns=["attempt_id"], filter=pc.field("kind").isin(NAMING))["attempt_id"].unique()
        rows = tables.open(name).to_pyarrow_dataset(filesystem=tables.log(name).data_files)
        present = [column for column in schema.names if column in rows.schema.names]
        found = rows.to_table(columns=present, filter=pc.field("attempt_id").isin(named.drop_null()))
        return pa.table(
            [found[f.name] if f.name in present else pa.nulls(found.num_rows, f.type) for f in schema], schema
        )

    return retry_on_vacuum(read)


def round_row(evidence: RoundEvidence, wall_ms: int, duration_ms: int | None) -> dict[str, Any]:
    """The row of `rounds`."""
    result = evidence.result
    kinds = [decision.kind for decision in result.decisions]
    known = [row["score"] for row in result.scores if row.get("eligible") and row.get("score") is not None]
    return {
        **_common(evidence),
        "mode": evidence.mode,
        "strategy": result.strategy,
        "challenger": result.challenger,
        "state_seq": result.state_seq,
        "decisions": len(kinds),
        "moves": sum(kind in MOVES for kind in kinds),
        "splits": kinds.count(DecisionKind.SPLIT),
        "skips": kinds.count(DecisionKind.SKIP),
        "mean_score": sum(known) / len(known) if known else None,
        "max_score": max(known, default=None),
        "plan_hash": result.plan_hash,
        "config_version": str(result.inputs.get("config_version", "")),
        "code_version": str(result.inputs.get("code_version", "")),
        "inputs_json": _json(result.inputs),
        "duration_ms": duration_ms,
        "wall_ms": wall_ms,
        "rules": result.inputs.get("rules"),
    }


def decision_rows(evidence: RoundEvidence) -> list[dict[str, Any]]:
    """The rows of `decisions`, skips included."""
    return [_decision_row(evidence, decision) for decision in evidence.result.decisions]


def score_rows(evidence: RoundEvidence) -> list[dict[str, Any]]:
    """The rows of `broker_scores`."""
    return [_score_row(evidence, row) for row in evidence.result.scores]


def _common(evidence: RoundEvidence) -> dict[str, Any]:
    result = evidence.result
    return {"round_id": result.round_id, "attempt_id": evidence.attempt_id, "at_ms": result.at_ms}


def _decision_row(evidence: RoundEvidence, decision: Decision) -> dict[str, Any]:
    outcome = evidence.outcomes.get(decision.id)
    return {
        **_common(evidence),
        "decision_id": decision.id,
        "kind": decision.kind.value,
        "label": decision.label.value,
        "reason": decision.reason.value,
        "band": decision.reason.band,
        "bundle": decision.bundle,
        "source": decision.source,
        "target": decision.target,
        "epoch": decision.epoch,
        "boundary": decision.boundary,
        "strategy": decision.strategy or evidence.result.strategy,
        "challenger": evidence.result.challenger,
        "executed": outcome == EXECUTED,
        "outcome": outcome,
        "evidence_json": _json(decision.evidence),
        "before_json": _json(decision.before),
        "after_json": _json(decision.after),
    }


def _score_row(evidence: RoundEvidence, row: Mapping[str, Any]) -> dict[str, Any]:
    used = row.get("utilisations") or {}
    return {
        **_common(evidence),
        "broker": row["broker"],
        "score": row.get("score"),
        "mean": row.get("mean"),
        "hits": int(row.get("hits") or 0),
        "eligible": bool(row.get("eligible")),
        "is_source": bool(row.get("source")),
        "reason": row.get("reason"),
        **{f"{name}_utilisation": used.get(name) for name in RESOURCES},
    }


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), default=_to_plain, allow_nan=False)


def _to_plain(value: Any) -> Any:
    """A numpy number as a Python number. Raises TypeError for anything else, which does not belong in evidence."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__} in evidence: store plain numbers and text")
