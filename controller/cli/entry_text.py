"""Entries of the journal as rows of text: what each is about, what happened, why, and what caused it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from controller.cli.evidence_text import reason_text
from controller.cli.show import duration_text, emit_table, time_text
from controller.domain.entries import Entry, Kind
from controller.domain.observed import OrderKind
from controller.domain.state import METADATA, ClusterState
from controller.domain.strict_json import is_whole
from controller.operations.plans.plan_words import entry_text as plan_text
from controller.operations.rounds.early import because_text
from controller.operations.text import count_text
from controller.operations.why.commanded import COMMANDED

# What a session's end means in a Pulsar cluster, where no broker says goodbye: its agent does. Whether for one broker
# that Pulsar lists no longer or for all as it stops itself, the entry does not tell.
_OBSERVED_ENDS = {"goodbye": "goodbye: Pulsar lists it no longer, or its agent stopped"}


def end_words(state: ClusterState) -> Mapping[str, str]:
    """What reasons of ended sessions mean in this cluster, where it is more than the reason says."""
    return _OBSERVED_ENDS if state.authority == METADATA else {}


def print_entries(entries: Sequence[Entry], title: str = "", words: Mapping[str, str] | None = None) -> None:
    """Print a table of entries. `words`: the reasons of decisions, with their figures, and of commands; the reasons of
    ended sessions (`end_words`)."""
    columns = ["seq >", "at (UTC)", "kind", "about", "what …", "reason", "cause"]
    emit_table(columns, [entry_cells(entry, words or {}) for entry in entries], title, empty="no entry matches")


def entry_cells(entry: Entry, words: Mapping[str, str] = MappingProxyType({})) -> tuple[object, ...]:
    """The entry's row of that table."""
    about = entry.bundle or entry.broker or entry.session or _subject(entry)
    cause = entry.decision_id or entry.command_id or entry.attempt_id
    return entry.seq, time_text(entry.at_ms), entry.kind.value, about, _what(entry), _why(entry, words), cause


def _why(entry: Entry, words: Mapping[str, str]) -> str:
    if entry.kind in (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED):
        return _why_commanded(entry)
    known = words.get(entry.decision_id or "") if entry.reason else None
    if entry.kind is Kind.SESSION_ENDED:
        known = words.get(entry.reason or "")
    if entry.reason == COMMANDED:
        known = words.get(entry.command_id or "")
    return known or reason_text(entry.reason)


def _why_commanded(entry: Entry) -> str:
    """What its sender gave as the reason; first why it was rejected, or what it left as it is."""
    why = str(entry.data.get("why") or "")
    if not entry.reason:
        return why
    return f"{entry.reason} (wanted: {why})" if why else entry.reason


def _subject(entry: Entry) -> str:
    return str(entry.data.get("namespace") or entry.data.get("topic") or entry.data.get("round_id") or "")


def _what(entry: Entry) -> str:
    """The rest of an entry in a few words."""
    if entry.kind is Kind.OWNERSHIP:
        parties = [party.rpartition("#")[0] for party in (entry.by, entry.to) if party]
        marks = [word for word in ("released", "fence") if entry.data.get(word)]
        return " ".join([f"{entry.state} e{entry.epoch}", " → ".join(parties), *marks]).strip()
    if entry.kind is Kind.SPLIT:
        return " ".join(f"{name} e{epoch}" for name, epoch in sorted(entry.data["children"].items()))
    if entry.kind in (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED):
        return (
            f"{entry.data.get('kind')} {json.dumps(entry.data.get('args'), sort_keys=True)} by {entry.data.get('who')}"
        )
    if entry.kind is Kind.ADOPTION:
        before = entry.data.get("before") or {}
        was = "".join(f", {setting} was {value or 'not set'}" for setting, value in sorted(before.items()))
        why = f": {entry.data['why']}" if entry.data.get("why") else ""
        return f"{entry.data.get('phase')} by {entry.data.get('who')}{why}{was}"
    if entry.kind is Kind.ORDER:
        to = entry.data.get("target") or ("" if entry.data.get("kind") != OrderKind.UNLOAD.value else "any broker")
        return f"{entry.data.get('kind')} {entry.data.get('source')}{f' → {to}' if to else ''}{_cut_text(entry)}"
    if entry.kind is Kind.ORDER_ENDED:
        return _order_end_text(entry)
    if entry.kind is Kind.PLAN:
        return plan_text(entry)
    if entry.kind is Kind.ROUND:
        counts = " ".join(f"{count} {kind}" for kind, count in entry.data.get("counts", {}).items())
        return "; ".join(filter(None, [counts, because_text(entry.data)]))
    if entry.kind is Kind.NAMESPACE_CREATED:
        return count_text(len(entry.data["bundles"]), "bundle")
    return " ".join(f"{key}={json.dumps(value)}" for key, value in sorted(entry.data.items()))


def _order_end_text(entry: Entry) -> str:
    """`stayed: 10.0.0.1:8080 owns it, after 4.2 s; rounds leave it alone until 10:02:00`, then Pulsar's own words. A
    split tells the boundary that was used."""
    owner = f": {entry.broker} owns it" if entry.broker else ""
    took = f", after {duration_text(entry.data['took_ms'])}" if is_whole(entry.data.get("took_ms")) else ""
    until = entry.data.get("not_before_ms")
    waits = f"; rounds leave it alone until {time_text(until)}" if is_whole(until) else ""
    said = f"; {entry.data['detail']}" if entry.data.get("detail") else ""
    return f"{entry.data['outcome']}{_cut_text(entry)}{owner}{took}{waits}{said}"


def _cut_text(entry: Entry) -> str:
    """` at 0x40000000`, where an order or its end names a boundary."""
    boundary = entry.data.get("boundary")
    return f" at 0x{boundary:08x}" if is_whole(boundary) else ""
