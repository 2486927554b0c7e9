"""A slice with aliases in place of its names; its rounds are hashed anew, and lead to the same plans.

Rules of placement name brokers and namespaces by patterns, which aliases do not match, so a slice with such rules is
refused, as is one of a Pulsar cluster, whose journal holds addresses and policies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.errors import ConfigError
from controller.domain.state import METADATA, ClusterState
from controller.domain.state_codec import decode, encode
from controller.operations.capture.aliases import Aliases
from controller.operations.capture.slice import Slice
from controller.policy.replay import Verdict, judge
from controller.policy.round import replan, replay_round
from schemas.arrow import arrow_table
from schemas.catalog import TABLES

IDS = ("instance", "attempt_id", "decision_id", "round_id", "cause")  # columns
RULES = ("isolation", "failure_domains", "anti_affinity")
Row = dict[str, Any]


@dataclass(slots=True)
class Hashing:
    """Rewrites the rows of a slice: rounds before the journal, whose entries name their plans.

    `unlike`: rounds that did not come to the same plan with aliases. `plans`: stored plan hash -> that with aliases.
    """

    aliases: Aliases
    unlike: list[str] = field(default_factory=list)
    plans: dict[str, str] = field(default_factory=dict)

    def state(self, state: ClusterState) -> ClusterState:
        """The state with aliases."""
        document = json.loads(encode(state))
        brokers = document["brokers"]
        for row in brokers.values():
            row[1] = {"info": row[1]}  # as in a journal entry: not all that a broker tells of itself is kept
        found = self.aliases.document(document)
        for row in found["brokers"].values():
            row[1] = row[1]["info"]
        return decode(json.dumps(found))

    def table(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of any table but `rounds`."""
        if name == "journal":
            return arrow_table(TABLES[name], map(self._entry, rows.to_pylist()))
        if name == "quarantine":
            return arrow_table(TABLES[name], ({**row, "raw": None, "text": ""} for row in rows.to_pylist()))
        return self._with_ids(_with_columns(rows, self._columns()))

    def _with_ids(self, rows: pa.Table) -> pa.Table:
        return _with_columns(rows, dict.fromkeys(IDS, self.aliases.id))

    def rounds(self, rows: pa.Table, decisions: pa.Table) -> pa.Table:
        """Rows of `rounds`. A round that replays gets the hash of its plan with aliases; `decisions`: with aliases."""
        rows = self._with_ids(rows)
        kept = ["attempt_id", "decision_id", "kind", "bundle", "source", "target", "reason"]
        by_attempt: dict[str, list[tuple[Any, ...]]] = {}
        for row in decisions.select(kept).sort_by("decision_id").to_pylist():
            by_attempt.setdefault(row["attempt_id"], []).append(tuple(row[name] for name in kept[2:]))
        return arrow_table(TABLES["rounds"], (self._round(row, by_attempt) for row in rows.to_pylist()))

    def settings(self, value: Any) -> Any:
        """Settings as JSON: names of namespaces get aliases, all other values stay."""
        if isinstance(value, Mapping):
            return {name: self.settings(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.settings(inner) for inner in value]
        return self.aliases.text(value, "namespace") if isinstance(value, str) and "/" in value else value

    def _round(self, row: Row, decisions: Mapping[str, list[tuple[Any, ...]]]) -> Row:
        stored = json.loads(row["inputs_json"])
        hashed = {**self.aliases.document({n: v for n, v in stored.items() if n != "settings"}), "settings":
                  self.settings(stored["settings"])}  # fmt: skip
        hashed["code_version"] = stored["code_version"]
        plan_hash = row["plan_hash"]
        if judge(stored, plan_hash).verdict is Verdict.EQUAL:
            plan_hash = self._plan_hash(row, hashed, decisions)
            self.plans[row["plan_hash"]] = plan_hash
        return {**row, "inputs_json": json.dumps(hashed, sort_keys=True, separators=(",", ":")), "plan_hash": plan_hash}

    def _plan_hash(self, row: Row, hashed: Row, decisions: Mapping[str, list[tuple[Any, ...]]]) -> str:
        """The hash of the plan with aliases; the stored one, which no replay comes to, if it is another plan."""
        found, plan = replay_round(hashed), replan(hashed)
        acts = [(d.kind.value, d.bundle, d.source, d.target, d.reason.value) for d in plan.decisions]
        if acts == decisions.get(row["attempt_id"], []):
            return found
        self.unlike.append(row["round_id"])
        return str(row["plan_hash"])

    def _entry(self, row: Row) -> Row:
        """A journal entry; a reason in words, as a refused command gets, is left out."""
        told = self.aliases
        parties = {name: row[name] and told.session(row[name]) for name in ("by", "to", "session")}
        row = {**row, **parties, "bundle": row["bundle"] and told.bundle(row["bundle"])}
        row |= {"broker": row["broker"] and told.broker(row["broker"])}
        row["reason"] = row["reason"] and told.text(row["reason"])
        row |= {name: row[name] and told.id(row[name]) for name in IDS if name in row}
        if row["data"]:
            data = told.document(json.loads(row["data"]))
            if "plan_hash" in data:
                data["plan_hash"] = self.plans.get(data["plan_hash"], data["plan_hash"])
            row["data"] = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return row

    def _columns(self) -> dict[str, Callable[[str], str]]:
        told = self.aliases
        documents = ("evidence_json", "before_json", "after_json")
        return {
            **dict.fromkeys(("broker", "source", "target"), told.broker),
            "bundle": told.bundle,
            "namespace": told.namespace,
            **dict.fromkeys(documents, lambda text: json.dumps(told.document(json.loads(text)), sort_keys=True)),
        }


def hashing_of(of: Slice, rounds: Iterable[pa.Table], loads: Iterable[tuple[str, pa.Table]]) -> Hashing:
    """What rewrites a slice. `rounds`, `loads`: its rounds with their inputs, panes and averages, for their names.

    Raises ConfigError for a slice that cannot be rewritten.
    """
    _refuse_observed(of.after)
    brokers, namespaces = _names_in_rounds(rounds)
    topics: set[str] = set()
    for found, of_loads in zip((brokers, namespaces), _names_in_loads(loads), strict=True):
        found |= of_loads
    for state in filter(None, (of.before, of.after)):
        brokers |= set(state.brokers)
        namespaces |= {record.bundle.namespace for record in state.bundles.values()} | set(state.namespaces)
        topics |= set(state.topics)
    brokers |= set(_texts(of.entries["broker"]))
    for column in ("by", "to", "session"):
        brokers |= {text.rpartition("#")[0] for text in _texts(of.entries[column])}
    namespaces |= {text.rpartition("/")[0] for text in _texts(of.entries["bundle"])}
    return Hashing(Aliases(brokers, namespaces, topics, set(_texts(of.entries["instance"]))))


def _refuse_observed(state: ClusterState) -> None:
    if state.authority == METADATA or state.observed.facts:
        raise ConfigError(
            "--hash-names: the brokers of this cluster decide ownership themselves, and its journal holds their "
            "addresses and policies: capture without it, or record with `ballast pulsar record --hash-names`"
        )


def _names_in_rounds(rounds: Iterable[pa.Table]) -> tuple[set[str], set[str]]:
    """Brokers and namespaces in the frames of rounds. Raises ConfigError for a round with rules of placement."""
    brokers: set[str] = set()
    namespaces: set[str] = set()
    for stored in (json.loads(text) for rows in rounds for text in rows["inputs_json"].to_pylist()):
        if any(stored["settings"].get("placement", {}).get(rule) for rule in RULES):
            raise ConfigError(
                "--hash-names: rules of placement name brokers and namespaces by patterns, which other names do not "
                "match: capture without it"
            )
        brokers |= {row[0] for row in stored["frame"]["brokers"]}
        namespaces |= {row[0].rpartition("/")[0] for row in stored["frame"]["bundles"]}
        namespaces |= set(stored["frame"]["namespace_bundles"])
    return brokers, namespaces


def _names_in_loads(loads: Iterable[tuple[str, pa.Table]]) -> tuple[set[str], set[str]]:
    brokers: set[str] = set()
    namespaces: set[str] = set()
    for _, rows in loads:
        brokers |= set(pc.unique(rows["broker"]).to_pylist())
        if "namespace" in rows.column_names:
            namespaces |= set(pc.unique(rows["namespace"]).to_pylist())
    return brokers, namespaces


def _texts(column: pa.ChunkedArray) -> Iterator[str]:
    yield from pc.unique(column).drop_null().to_pylist()


def _with_columns(rows: pa.Table, changes: Mapping[str, Callable[[str], str]]) -> pa.Table:
    for column, of in changes.items():
        if column in rows.column_names:
            rows = rows.set_column(rows.column_names.index(column), column, _mapped(rows[column], of))
    return rows


def _mapped(column: pa.ChunkedArray, of: Callable[[str], str]) -> pa.ChunkedArray:
    """The column with each text replaced, each different one once."""
    found = column.combine_chunks().dictionary_encode()
    words = pa.array([of(text) for text in found.dictionary.to_pylist()], column.type)
    return pa.chunked_array([words.take(found.indices)])
