"""Reads the evidence that counts: rounds, decisions and scores whose attempt a journal entry names.

Evidence is written before the journal, so a row that no entry names belongs to a round or batch that never counted. A
decision without a row in `rounds` was made by the control step itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.decision import EXECUTED, FIRST_RULES, OF_STEP, Reason
from controller.domain.entries import Kind
from controller.domain.reasons.words import describe_decision_row, describe_reason, describe_score
from controller.domain.state import ClusterState
from controller.operations.plans.kept_plans import (
    CARRIES_OUT,
    HELD_BACK,
    find_part,
    find_plan,
    fold_plans,
    keeps_all_back,
    may_go_ahead,
    may_have_part,
    was_executed_later,
)
from controller.operations.plans.plan_words import ahead_sentence
from controller.operations.reading import MissingTable, Reader
from controller.operations.rounds.early import why_round
from schemas.evidence_tables import BROKER_SCORES, DECISIONS, ROUNDS

JSON_COLUMNS = ("evidence_json", "before_json", "after_json")
_TO_CHOOSE = ("decision_id", "attempt_id", "at_ms", "kind", "source", "target")
_LONGEST_TURN_MS = 300_000  # from a round's time on the axis of reports until the last of its moves began
_FEW_TIMES = 100  # of a read that names each of them
Row = dict[str, Any]


class EvidenceView:
    """A view of the evidence at one time; rows are read once and kept."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rounds: list[Row] | None = None
        self._named: Mapping[str, int] | None = None
        self._scores: dict[str, list[Row]] = {}
        self._plans: list[Row] | None = None

    def again(self, same_rounds: bool) -> EvidenceView:
        """A view of the evidence now. `same_rounds`: no round has come since, so what is known of rounds stays."""
        view = EvidenceView(self._reader)
        if same_rounds:
            view._rounds, view._scores = self._rounds, self._scores
        return view

    def rounds(self) -> list[Row]:
        """All rounds that count, newest first, without their inputs; `seq` is that of the journal entry.

        Raises MissingTable.
        """
        if self._rounds is None:
            self._reader.check_rounds_kept("rounds")
            columns = [name for name in ROUNDS.names if name != "inputs_json"]
            rows = self._reader.rows("rounds", "wall_ms", columns=columns).to_pylist()
            named = self._attempts() if rows else {}
            counted = [
                {**row, "rules": row["rules"] or FIRST_RULES, "seq": named[row["attempt_id"]]}
                for row in rows
                if row["attempt_id"] in named
            ]
            self._rounds = sorted(counted, key=lambda row: row["seq"], reverse=True)
        return self._rounds

    def plans(self) -> list[Row]:
        """The plans that waited for an operator, oldest first (`fold_plans`)."""
        if self._plans is None:
            self._plans = fold_plans(self._reader.plan_entries())
        return self._plans

    def with_plans(self, rounds: Sequence[Row]) -> list[Row]:
        """Rows of rounds with their `plan`, which waited for an operator; None for a round that left none waiting.
        `held_back`: how many moves of a round without one waited behind another round's, or were declined with it."""
        plans = self.plans()
        with_own = [{**row, "plan": find_plan(plans, row)} for row in rounds]
        held = self._held_back([row for row in with_own if row["plan"] is None and row["moves"]])
        return [{**row, "held_back": held[row["attempt_id"]]} for row in with_own]

    def _held_back(self, rounds: Sequence[Row]) -> Counter[str]:
        """How many moves of these rounds were, by attempt. Those of challengers never are: nobody carries them out."""
        leading = [row for row in rounds if not row["challenger"]]
        if not leading:
            return Counter()
        times, attempts = [row["at_ms"] for row in leading], {row["attempt_id"] for row in leading}
        found = self._rows_that_count("decisions", attempts, ("attempt_id", "outcome"), min(times), max(times))
        held = found.filter(pc.is_in(found["outcome"].cast(pa.string()), value_set=pa.array(sorted(HELD_BACK))))
        return Counter(held["attempt_id"].to_pylist())

    def why_ahead(self, decision: Row, of_round: Row | None) -> str | None:
        """Why a move was carried out while others, of its round or of the plan before it, waited for an approval; None
        if nothing waited."""
        if of_round is None or not may_go_ahead(decision) or decision["plan"] is not None:
            return None
        seq = self._attempts()[decision["attempt_id"]]
        waited = any(keeps_all_back(plan, decision, seq) for plan in self.plans())
        if not waited and not self._held_back([of_round]):
            return None
        rows = (self.score(of_round, decision[end] or "") for end in ("source", "target"))
        return ahead_sentence(decision, *(row["score"] if row is not None else None for row in rows))

    def why_round(self, of_round: Row) -> str | None:
        """Why a round was early or doubted readings; None for one that did neither."""
        return why_round(self._reader, of_round)

    def last_round(self) -> Row | None:
        """The newest round of the strategy in charge. None also where the table is missing: what shows it beside other
        things shows those."""
        try:
            return next((row for row in self.rounds() if not row["challenger"]), None)
        except MissingTable:
            return None

    def inputs(self, attempt_ids: Iterable[str], from_ms: int = 0, up_to_ms: int | None = None) -> dict[str, Row]:
        """The stored inputs of rounds, by attempt; only rounds with `from_ms` <= `wall_ms` <= `up_to_ms` are read."""
        rows = self._reader.rows("rounds", "wall_ms", from_ms - 1, up_to_ms, ["attempt_id", "inputs_json"])
        wanted = pa.array(list(attempt_ids), pa.string())
        chosen = rows.filter(pc.is_in(rows["attempt_id"].cast(pa.string()), value_set=wanted)).to_pylist()
        return {row["attempt_id"]: json.loads(row["inputs_json"]) for row in chosen}

    def decisions(
        self,
        round_id: str | None = None,
        broker: str | None = None,
        bundle: str | None = None,
        decision_id: str | None = None,
        skips: bool = True,
        limit: int | None = None,
        from_ms: int = 0,
        up_to_ms: int | None = None,
    ) -> list[Row]:
        """Matching decisions that count, newest first, ordered by round or batch within a time; JSON is parsed.

        Only decisions with `from_ms` <= `at_ms` <= `up_to_ms` are read. Evidence makes up nearly all of the table, so
        it is only read for the rows that are returned. Raises MissingTable.
        """
        self._reader.check_rounds_kept("decisions")
        order = self._attempts()
        given = {"round_id": round_id, "bundle": bundle, "decision_id": decision_id}
        wanted = {column: value for column, value in given.items() if value is not None}
        table = self._choose_from(order, wanted, from_ms, up_to_ms)
        if broker is not None:
            table = table.filter(pc.or_kleene(pc.equal(table["source"], broker), pc.equal(table["target"], broker)))
        if not skips:
            table = table.filter(pc.not_equal(table["kind"], "skip"))
        found = sorted(
            table.to_pylist(), key=lambda row: (-row["at_ms"], -order[row["attempt_id"]], row["decision_id"])
        )[:limit]
        return self._with_orders(self._with_turns(self._with_plans(self._whole(found, wanted)))) if found else []

    def _choose_from(
        self, order: Mapping[str, int], wanted: Mapping[str, str], from_ms: int, up_to_ms: int | None
    ) -> pa.Table:
        """The decisions that count and have these values, with the columns that the choice and the order need.

        A bundle is named in few of a day's rounds: one look at times alone saves reading the columns of all the others.
        """
        among: list[int] | None = None
        if wanted and from_ms != up_to_ms:
            times = self._reader.rows("decisions", "at_ms", from_ms - 1, up_to_ms, ["at_ms"], wanted)["at_ms"].unique()
            if 0 < len(times) <= _FEW_TIMES:
                among = sorted(times.to_pylist())
                from_ms, up_to_ms = among[0], among[-1]
            elif not len(times):
                up_to_ms = from_ms - 1  # there are none
        return self._rows_that_count("decisions", order, _TO_CHOOSE, from_ms, up_to_ms, wanted, among)

    def _whole(self, found: Sequence[Row], wanted: Mapping[str, str]) -> list[Row]:
        """These decisions with all columns, in their order."""
        times = sorted({row["at_ms"] for row in found})
        attempts = {row["attempt_id"] for row in found}
        among = times if len(times) <= _FEW_TIMES else None
        whole = self._rows_that_count("decisions", attempts, DECISIONS.names, times[0], times[-1], wanted, among)
        names = pa.array([row["decision_id"] for row in found], pa.string())
        chosen = whole.filter(pc.is_in(whole["decision_id"].cast(pa.string()), value_set=names)).to_pylist()
        by_id = {(row["attempt_id"], row["decision_id"]): row for row in chosen}
        return [_parse(by_id[row["attempt_id"], row["decision_id"]]) for row in found]

    def _with_plans(self, rows: Sequence[Row]) -> list[Row]:
        """`plan`: what a decision has to do with one that waited for an operator (`find_part`).

        A decision that carries out a move of a round has the round's evidence and prediction, too.
        """
        if not any(map(may_have_part, rows)):
            return [{**row, "plan": None} for row in rows]  # without a look through the journal for plans
        plans, named = self.plans(), self._attempts()
        told = [{**row, "plan": find_part(plans, row, named[row["attempt_id"]])} for row in rows]
        later = [row for row in told if was_executed_later(row)]
        if later:
            steps = self._carried_out({row["plan"]["outcome_ms"] for row in later})
            for row in later:
                row["plan"]["carried_out_as"] = steps.get(row["decision_id"])
        parts = [row["plan"] for row in told if row["plan"] is not None and row["plan"]["part"] == CARRIES_OUT]
        if not parts:
            return told
        at_ms, ids = {plan["round_id"]: plan["at_ms"] for plan in plans}, [part["decision_id"] for part in parts]
        found = self._at_times({at_ms[part["round_id"]] for part in parts})
        origins = found.filter(pc.is_in(found["decision_id"].cast(pa.string()), value_set=pa.array(ids))).to_pylist()
        by_id = {row["decision_id"]: _parse(row) for row in origins}
        return [_with_origin(row, by_id) for row in told]

    def _with_turns(self, rows: Sequence[Row]) -> list[Row]:
        """`sent_as`: the decision of the control step that carried out one which waited for its turn, or None."""
        waited = [row for row in rows if row["outcome"] == Reason.IN_TURN.value]
        if not waited:
            return [{**row, "sent_as": None} for row in rows]
        first, last = min(row["at_ms"] for row in waited), max(row["at_ms"] for row in waited) + _LONGEST_TURN_MS
        counted = self._rows_that_count("decisions", self._attempts(), DECISIONS.names, first, last)
        steps = _by_origin(counted)
        return [{**row, "sent_as": steps.get(row["decision_id"])} for row in rows]

    def _carried_out(self, times: Collection[int]) -> dict[str, str]:
        """Decisions of rounds, carried out by the control step at these times -> the decisions that did it."""
        return _by_origin(self._at_times(times))

    def _at_times(self, times: Collection[int]) -> pa.Table:
        """The decisions that count at these times."""
        among = sorted(times) if len(times) <= _FEW_TIMES else None
        counted, span = self._attempts(), (min(times), max(times))
        return self._rows_that_count("decisions", counted, DECISIONS.names, *span, among=among)

    def _with_orders(self, rows: Sequence[Row]) -> list[Row]:
        """`order`: how a cluster that decides ownership itself carried a decision out, who owns the bundle then, and
        where a split cut; None where it got no order, or has not answered yet."""
        named, ended = self._attempts(), dict[str, Row]()
        sent = [named[row["attempt_id"]] for row in rows if row["outcome"] == EXECUTED or was_executed_later(row)]
        if sent:
            columns = ["decision_id", "broker", "data"]
            only = {"kind": Kind.ORDER_ENDED.value}
            for entry in self._reader.rows("journal", "seq", min(sent) - 1, None, columns, only).to_pylist():
                told = json.loads(entry["data"])
                cut = {"boundary": told["boundary"]} if "boundary" in told else {}
                ended[entry["decision_id"]] = {"outcome": told["outcome"], "owner": entry["broker"], **cut}
        return [{**row, "order": ended.get(carried_out_as(row))} for row in rows]

    def naming(self, bundle: str, rounds: Sequence[Row]) -> list[Row]:
        """Decisions of these rounds whose evidence names the bundle, newest round first."""
        if not rounds:
            return []
        order = {row["attempt_id"]: number for number, row in enumerate(rounds)}
        times = [row["at_ms"] for row in rounds]
        table = self._rows_that_count("decisions", order, DECISIONS.names, min(times), max(times))
        table = table.filter(pc.match_substring(table["evidence_json"], json.dumps(bundle)))
        rows = sorted(table.to_pylist(), key=lambda row: (order[row["attempt_id"]], row["decision_id"]))
        return [_parse(row) for row in rows]

    def scores(self, of_round: Row) -> list[Row]:
        """The scores of one round, highest first, each with its reason in words."""
        if of_round["attempt_id"] not in self._scores:
            self._scores[of_round["attempt_id"]] = self._read_scores(of_round)
        return self._scores[of_round["attempt_id"]]

    def score(self, of_round: Row, broker: str) -> Row | None:
        """The score of one broker in a round; None if the round did not know it."""
        known = self._scores.get(of_round["attempt_id"])
        rows = known if known is not None else self._read_scores(of_round, broker)
        return next((row for row in rows if row["broker"] == broker), None)

    def sources(self, of_round: Row) -> list[str]:
        """The brokers that were to give bundles away, highest score first."""
        known = self._scores.get(of_round["attempt_id"])
        if known is None:
            at_ms, columns = of_round["at_ms"], ("attempt_id", "broker", "score", "is_source")
            table = self._rows_that_count("broker_scores", {of_round["attempt_id"]}, columns, at_ms, at_ms)
            known = sorted(table.filter(table["is_source"]).to_pylist(), key=_by_score)
        return [row["broker"] for row in known if row["is_source"]]

    def _read_scores(self, of_round: Row, broker: str | None = None) -> list[Row]:
        """All scores of a round, or that of one broker."""
        at_ms, attempts = of_round["at_ms"], {of_round["attempt_id"]}
        own, given = (None, None) if broker is None else ({"broker": broker}, {"source": broker})
        table = self._rows_that_count("broker_scores", attempts, BROKER_SCORES.names, at_ms, at_ms, own)
        rows: list[Row] = table.to_pylist()
        decisions = self._rows_that_count("decisions", attempts, DECISIONS.names, at_ms, at_ms, given).to_pylist()
        evidence = {(row["source"], row["reason"]): _parse(row)["evidence"] for row in reversed(decisions)}
        to_it = None if broker is None else {"target": broker}
        moves = self._rows_that_count("decisions", attempts, ("attempt_id", "target"), at_ms, at_ms, to_it)
        targets = set(moves["target"].to_pylist())
        for row in rows:
            seen = evidence.get((row["broker"], row["reason"]), {})
            receives = row["broker"] in targets and not row["is_source"]
            row["reason_words"] = describe_score(row["reason"], seen, row["score"], receives) or None
        return sorted(rows, key=_by_score)

    def _rows_that_count(
        self,
        name: str,
        attempts: Iterable[str],
        columns: Sequence[str],
        from_ms: int = 0,
        up_to_ms: int | None = None,
        equal: Mapping[str, str] | None = None,
        among: Sequence[int] | None = None,
    ) -> pa.Table:
        rows = self._reader.rows(name, "at_ms", from_ms - 1, up_to_ms, columns, equal, among)
        wanted = pa.array(list(attempts), pa.string())
        return rows.filter(pc.is_in(rows["attempt_id"].cast(pa.string()), value_set=wanted))

    def _attempts(self) -> Mapping[str, int]:
        """Attempt id -> seq of the first journal entry that names it."""
        if self._named is None:
            self._named = self._reader.attempts()
        return self._named


def no_rounds_text(state: ClusterState) -> str:
    """Why there is no row in `rounds`."""
    if not state.round_seq:
        return "no round has run yet"
    return (
        f"no round is kept, though the journal names some, the newest in entry {state.round_seq}: evidence older than "
        "its retention is removed, and a lost table is created empty"
    )


def carried_out_as(decision: Row) -> str:
    """The id by which the journal names what a decision caused."""
    part = decision["plan"] or {}
    return str(part.get("carried_out_as") or decision["sent_as"] or decision["decision_id"])


def _by_origin(found: pa.Table) -> dict[str, str]:
    """Decisions of rounds -> those of the control step, among these, that carried them out."""
    of_step = map(_parse, found.filter(pc.starts_with(found["decision_id"], OF_STEP)).to_pylist())
    return {row["evidence"]["decision"]: row["decision_id"] for row in of_step if "decision" in row["evidence"]}


def _with_origin(decision: Row, origins: Mapping[str, Row]) -> Row:
    """A decision with the evidence of the round's decision that it carries out: its own has but the names."""
    part = decision["plan"]
    origin = origins.get(part["decision_id"]) if part is not None and part["part"] == CARRIES_OUT else None
    if origin is None:
        return decision
    evidence = {**origin["evidence"], **decision["evidence"]}
    return {**decision, **{name: origin[name] for name in ("before", "after", "reason_words")}, "evidence": evidence}


def _by_score(row: Row) -> tuple[float, str]:
    return -(row["score"] if row["score"] is not None else -1.0), row["broker"]


def _parse(row: Mapping[str, Any]) -> Row:
    result = {name: value for name, value in row.items() if name not in JSON_COLUMNS}
    result |= {name.removesuffix("_json"): json.loads(row[name]) if row[name] else {} for name in JSON_COLUMNS}
    return result | {
        "reason_words": describe_decision_row(result),
        "outcome_words": describe_reason(row["outcome"]) or None,
    }
