"""The view *Bundle*: its owners and its load over time, why it was moved, why it was left, what its moves realised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.reasons.words import describe_reason
from controller.operations.evidence_words import reason_text, scores_text
from controller.operations.explain import (
    LOOK_BACK,
    bundle_document,
    bundle_now,
    nobody_text,
    overrides_on,
)
from controller.operations.load_history import load_history
from controller.operations.reading import NothingNamed
from controller.operations.realised_moves import judge_moves, realised_text
from controller.operations.text import count_text, percent_text
from controller.operations.why.commanded import COMMANDED, commanded_texts
from controller.ui.cluster import DAY_MS, LiveCluster
from controller.ui.views.words import decision_row

Row = dict[str, Any]


def bundle(cluster: LiveCluster, name: str, now_ms: int) -> Row:
    """The document of the view. Raises NothingNamed."""
    reader, view, state = cluster.reader, cluster.evidence(), cluster.state()
    now = bundle_now(state, name)
    if now is None:
        raise NothingNamed(f"no bundle is named {name}")
    overrides = overrides_on(state, now)
    found = bundle_document(reader, view, now, LOOK_BACK, cluster.day_since_ms(now_ms), overrides)
    said = commanded_texts(found["commands"])
    parsed = Bundle.parse(name)
    entries = [Entry.from_row(row) for row in found["journal"]]
    return {
        "now": {**found["now"], "namespace": parsed.namespace, "share": (parsed.upper - parsed.lower) / 2**32},
        "sentence": _sentence(now, found["split_into"]),
        "decisions": [decision_row(row) for row in found["decisions"]],
        "stayed": _stayed(found["candidate"], now, found["split_into"]),
        "owners": _owners(name, entries),
        "commands": found["commands"],
        "entries": [_entry_row(entry, said) for entry in reversed(entries)],
        "overrides": found["overrides"],
    }


def bundle_load(cluster: LiveCluster, name: str) -> Row:
    """The load of the last 24 hours, as columns."""
    return load_history(cluster.reader, name, DAY_MS)


def realised(cluster: LiveCluster, *, bundle: str | None = None, round_id: str | None = None, now_ms: int = 0) -> Row:
    """What moves were predicted to change at both ends and what they did: of a bundle's last day, or of a round."""
    view = cluster.evidence()
    since_ms = cluster.day_since_ms(now_ms) if bundle is not None else 0
    decisions = view.decisions(bundle=bundle, round_id=round_id, skips=False, from_ms=since_ms)
    rows = judge_moves(view, decisions, cluster.reader.window_ms)
    return {"rows": [{**row, "text": realised_text(row)} for row in rows]}


def _sentence(now: Mapping[str, Any], split_into: Sequence[str]) -> str:
    if split_into:
        return f"It was split into {' and '.join(split_into)}."
    if now["to"] is not None:
        return f"It is on its way{' from ' + now['owner'] if now['owner'] else ''} to {now['to']} ({now['state']})."
    if now["owner"] is None:
        return f"Nobody owns it ({now['state']})."
    return f"{now['owner']} owns it." if now["state"] == "owned" else f"{now['owner']} has it ({now['state']})."


def _stayed(found: Mapping[str, Any], now: Mapping[str, Any], split_into: Sequence[str]) -> Row:
    """When rounds considered the bundle and left it, and why; else a sentence why none considered it."""
    times = [
        {
            **{name: row.get(name) for name in ("at_ms", "round_id", "decision_id", "source", "target")},
            "source_after": scores_text(row)[0],
            "target_after": scores_text(row)[1],
            "result": row["result"],
        }
        for row in found["times"]
    ]
    return {
        "rounds": found["rounds"],
        "since_ms": found["since_ms"],
        "times": times,
        "sentence": _none(found, now, split_into),
    }


def _none(found: Mapping[str, Any], now: Mapping[str, Any], split_into: Sequence[str]) -> str:
    if found["times"]:
        times = count_text(len(found["times"]), "time")
        return f"It was considered and left {times} in the last {count_text(found['rounds'], 'round')}."
    if not found["rounds"]:
        return "No round has run yet that could have considered it."
    none = f"None of the last {count_text(found['rounds'], 'round')} weighed moving it"
    if now["owner"] is None:
        return f"{none}: {nobody_text(split_into)}."
    if found["held_by"] is not None:
        return f"{none}: {found['held_by']}."
    why = found["why_not"]
    if why is None:
        return f"{none}: the newest knew nothing of its broker {now['owner']}."
    figures = f"load {percent_text(why['score']) or 'unknown'}, level {percent_text(why['mean']) or 'unknown'}"
    reason = why["reason_words"] or why["reason"] or "no reason is known"
    if not why["is_source"]:
        return f"{none}. The newest took nothing off its broker {why['broker']} ({figures}): {reason}."
    lost = "".join(
        f" {count_text(count, 'bundle')} of it could not move: {describe_reason(code) or code}."
        for code, count in (why["bundles_lost"] or {}).items()
    )
    wanted = f"The newest wanted to relieve its broker {why['broker']} ({figures})"
    return f"{none}. {wanted}; this bundle was not among the best to take.{lost}"


def _owners(name: str, entries: list[Entry]) -> list[Row]:
    """Who owned it from when on, oldest first; only changes. The halves of a split begin at their parent's owner."""
    found: list[Row] = []
    for entry in entries:
        born = entry.kind is Kind.SPLIT and entry.bundle != name
        if entry.by is None or not (born or (entry.kind is Kind.OWNERSHIP and entry.state == State.OWNED.value)):
            continue
        owner = entry.by.rpartition("#")[0]
        if not found or found[-1]["owner"] != owner:
            found.append({"at_ms": entry.at_ms, "owner": owner, "epoch": entry.epoch, "seq": entry.seq})
    return found


def _entry_row(entry: Entry, said: Mapping[str, str]) -> Row:
    parties = [party.rpartition("#")[0] for party in (entry.by, entry.to) if party]
    return {
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "kind": entry.kind.value,
        "state": entry.state,
        "epoch": entry.epoch,
        "parties": parties,
        "reason": (said.get(entry.command_id or "") if entry.reason == COMMANDED else "") or reason_text(entry.reason),
        "decision_id": entry.decision_id,
        "command_id": entry.command_id,
    }
