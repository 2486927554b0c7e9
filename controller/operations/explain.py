"""Documents of `ballast explain`: the evidence behind a decision, a round, a broker or a bundle; a command; a reason.

The document about a bundle says why rounds moved it, and why they left it where it is. Documents include what the
journal says happened afterwards, so that "decided" and "done" are never confused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.config.settings import Settings
from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord, label
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.reasons.table import REASON_TABLE
from controller.domain.reasons.words import describe_reason
from controller.domain.state import ClusterState
from controller.operations.bundles import observed_row, ownership_row
from controller.operations.evidence_view import EvidenceView, carried_out_as
from controller.operations.evidence_words import candidates_of, giver_of, is_chosen, result_text
from controller.operations.reading import NoTables, NothingNamed, Reader
from controller.operations.realised_moves import judge_moves
from controller.operations.why.commanded import (
    commands_about,
    commands_about_broker,
    drains_behind,
    find_command,
    ids_of,
    with_commanded,
)
from controller.operations.why.overridden import held_by_text, with_effects

HISTORY = 50  # entries and decisions of a bundle or broker that a document contains
LOOK_BACK = 20  # rounds that are searched for a bundle as a candidate
Row = dict[str, Any]


def explain(reader: Reader, name: str, look_back: int = LOOK_BACK) -> Row:
    """The document about whatever has this name; its `about` says what that is. Raises NothingNamed.

    `look_back`: rounds of the strategy in charge that are searched for a bundle as a candidate.
    """
    view = EvidenceView(reader)
    document = None if _is_bundle_name(name) else _evidence_document(reader, view, name)
    if document is not None:
        return document
    state = reader.outline((name,)).state
    if name in state.brokers:
        document = broker_document(view, name, state.session_of(name) is not None)
        return {**document, "commands": commands_about_broker(reader, name)}
    now = bundle_now(state, name)
    if now is not None:
        document = bundle_document(reader, view, now, look_back, overrides=overrides_on(state, now))
        about = [row for row in document["decisions"] if row["bundle"] == name]
        return {**document, "realised": judge_moves(view, about, reader.window_ms)}
    commanded = find_command(reader, name)
    if commanded is not None:
        entries = [entry.to_row() for entry in commanded[1]]
        return {"about": "command", "command": commanded[0], "journal": entries}
    of_batch = view.decisions(round_id=name)
    if of_batch:
        return {"about": "batch", "decisions": of_batch}
    raise NothingNamed(
        f"nothing is named {label(name)}: give a decision (`ballast decisions --skips`), a round (`ballast rounds`), a "
        "broker, a bundle, a command (`ballast journal`) or a reason code (docs/reasons.md); evidence older than its "
        "retention is gone"
    )


def _is_bundle_name(name: str) -> bool:
    try:
        Bundle.parse(name)
    except BadRecord:
        return False
    return True


def _evidence_document(reader: Reader, view: EvidenceView, name: str) -> Row | None:
    """The document about a decision or a round of this name; None if there is none."""
    found = view.decisions(decision_id=name)
    if found:
        return _decision(reader, view, found[0])
    rounds = [row for row in view.rounds() if row["round_id"] == name]
    if rounds:
        return {"about": "round", "rounds": [_round(view, row, reader.window_ms) for row in rounds]}
    return None


def bundle_now(state: ClusterState, name: str) -> Row | None:
    """An owned or observed bundle as it is now; None for a name that is none."""
    if name in state.bundles:
        return ownership_row(state.bundles[name])
    return observed_row(state.observed, name) if name in state.observed.bundles else None


def reason_document(settings: Settings, reason: Reason) -> Row:
    """The document about a reason code: what it means, what to do, the keys that change it. Needs no tables."""
    entry = REASON_TABLE[reason]
    return {
        "about": "reason",
        "code": reason.value,
        "band": reason.band,
        "words": describe_reason(reason.value),
        "meaning": entry.meaning,
        "act": entry.act,
        "keys": {key: _setting(settings, key) for key in entry.keys},
        "pulsar": entry.pulsar or None,
    }


def is_broker(settings: Settings, name: str) -> bool:
    """Whether a broker has this name; it may look like a reason code."""
    try:
        return name in Reader(settings).outline().state.brokers
    except NoTables:
        return False


def _setting(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    value = getattr(getattr(settings, section), name)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _decision(reader: Reader, view: EvidenceView, decision: Row) -> Row:
    rounds = [row for row in view.rounds() if row["attempt_id"] == decision["attempt_id"]]
    caused = _consequences(reader, carried_out_as(decision))
    drains = drains_behind(reader, [decision])
    commands = commands_about(reader, (), set(drains.values())) if drains else []
    return {
        "about": "decision",
        "decision": with_commanded([decision], drains, commands)[0],
        "round": rounds[0] if rounds else None,
        "ahead": view.why_ahead(decision, rounds[0] if rounds else None),
        "realised": judge_moves(view, [decision], reader.window_ms),
        "journal": caused,
    }


def _consequences(reader: Reader, decision_id: str) -> list[Row]:
    """The journal entries that a decision caused: those that name it, then its bundle's until it is owned again."""
    caused = _journal(reader, decision_id=decision_id)
    if not caused or caused[-1]["kind"] != Kind.OWNERSHIP.value:
        return caused
    after = [row for row in _journal(reader, bundle=caused[-1]["bundle"]) if row["seq"] > caused[-1]["seq"]]
    for row in after:
        caused.append(row)
        if row["state"] == State.OWNED.value or row["kind"] != Kind.OWNERSHIP.value:
            break
    return caused


def overrides_on(state: ClusterState, now: Row) -> list[Row]:
    """The overrides in force that concern a bundle, by its row, each with what it comes to."""
    bundle = Bundle.parse(now["bundle"])
    return with_effects(state, now, [wish for wish in state.overrides.values() if wish.concerns(bundle)])


def bundle_document(
    reader: Reader,
    view: EvidenceView,
    now: Row,
    look_back: int,
    since_ms: int = 0,
    overrides: Sequence[Row] = (),
) -> Row:
    """The document about a bundle, without what its moves have realised.

    `look_back`: see `explain`. `since_ms`: older decisions about it are not read. `overrides`: see `overrides_on`.
    """
    name = now["bundle"]
    origin, journal = _origin(reader, name), _journal(reader, bundle=name)
    entry_at_ms = next((row["at_ms"] for row in journal if row["seq"] == now["entry_seq"]), None)
    cause = origin[0]["decision_id"] if origin else None
    decisions = view.decisions(bundle=name, limit=HISTORY, from_ms=since_ms)
    decisions += view.decisions(decision_id=cause, from_ms=since_ms) if cause else []
    drains = drains_behind(reader, decisions)
    behind = ids_of(journal) | {row["id"] for row in overrides} | set(drains.values())
    commands = commands_about(reader, {name, Bundle.parse(name).namespace}, behind)
    return {
        "about": "bundle",
        "now": {**now, "entry_at_ms": entry_at_ms},
        "decisions": with_commanded(decisions, drains, commands),
        "overrides": list(overrides),
        "candidate": _why_it_stayed(view, name, now["owner"], look_back, overrides),
        "commands": commands,
        "journal": [*origin, *journal],
        "split_into": _halves(name, journal),
    }


def nobody_text(split_into: Sequence[str]) -> str:
    """Why no round weighed moving a bundle without an owner."""
    if split_into:
        return f"it was split into {' and '.join(split_into)}, which move by themselves"
    return "nobody owns it, and rounds move only what has an owner"


def _halves(bundle: str, journal: Sequence[Row]) -> list[str]:
    """The bundles that a split has made of it, in order."""
    splits = (Entry.from_row(row) for row in journal if row["kind"] == Kind.SPLIT.value and row["bundle"] == bundle)
    return next((sorted(split.data["children"]) for split in splits), [])


def _why_it_stayed(view: EvidenceView, bundle: str, owner: str | None, look_back: int, overrides: Sequence[Row]) -> Row:
    """`times`: a row for each round in which the bundle was a candidate and stayed, newest first, with its best pair.

    Without such a round, `why_not` is what the last round says of the owner, and `held_by` the override that it obeyed,
    if any. Only evidence that names the bundle is parsed.
    """
    rounds = [row for row in view.rounds() if not row["challenger"]][:look_back]
    times = _rounds_that_left(bundle, view.naming(bundle, rounds))
    searched: Row = {"rounds": len(rounds), "since_ms": rounds[-1]["at_ms"] if rounds else None, "times": times}
    if times:
        return searched
    held_by = held_by_text(overrides, owner, rounds[0]["state_seq"]) if rounds else None
    return {**searched, "held_by": held_by, "why_not": _why_not(view, rounds, owner)}


def _rounds_that_left(bundle: str, decisions: list[Row]) -> list[Row]:
    """For each round that left the bundle where it was: its best pair, and what the round chose instead."""
    moved = {(d["attempt_id"], d["bundle"]) for d in decisions if d["kind"] != "skip"}
    found: dict[str, Row] = {}
    for decision in decisions:
        if (decision["attempt_id"], bundle) in moved or decision["attempt_id"] in found:
            continue
        pairs = [pair for pair in candidates_of(decision) if pair["bundle"] == bundle]
        if pairs:
            won = None if decision["kind"] == "skip" else {n: decision[n] for n in ("bundle", "target")}
            found[decision["attempt_id"]] = {
                **{name: decision[name] for name in ("at_ms", "round_id", "decision_id", "strategy")},
                "source": giver_of(decision),
                "pairs": len(pairs),
                **pairs[0],
                "won": won,
                "result": _why_left(pairs[0], decision),
            }
    return list(found.values())


def _why_left(pair: Row, decision: Row) -> str:
    """The rule that kept a bundle where it is; if none did, the move that was preferred."""
    if pair.get("lost_by") or decision["kind"] == "skip":
        return result_text(pair, decision)
    return f"{decision['bundle']} to {decision['target']} was preferred"


def _why_not(view: EvidenceView, rounds: list[Row], owner: str | None) -> Row | None:
    """What the last round says of the owner; None without a round, or if the round did not know the owner."""
    if not rounds or owner is None:
        return None
    score = view.score(rounds[0], owner)
    if score is None:
        return None
    of_score = ("broker", "score", "mean", "hits", "is_source", "reason", "reason_words")
    last = {name: rounds[0][name] for name in ("round_id", "at_ms")}
    own = (d for d in _decisions_of(view, rounds[0], owner) if d["source"] == owner)
    lost: Row = next((d["evidence"]["bundles_lost"] for d in own if d["evidence"].get("bundles_lost")), {})
    return {**last, **{name: score[name] for name in of_score}, "bundles_lost": lost}


def _origin(reader: Reader, bundle: str) -> list[Row]:
    """The entry that created the bundle: the split of its parent; none for a namespace's initial bundles."""
    found = reader.split_into(bundle)
    return [found.to_row()] if found is not None else []


def _round(view: EvidenceView, row: Row, window_ms: int) -> Row:
    decisions = _decisions_of(view, row)
    realised = judge_moves(view, decisions, window_ms)
    told = {**view.with_plans([row])[0], "because": view.why_round(row)}
    return {"round": told, "scores": view.scores(row), "decisions": decisions, "realised": realised}


def _decisions_of(view: EvidenceView, row: Row, broker: str | None = None) -> list[Row]:
    """Those of a round; only those that take something from this broker or give it something, if one is named."""
    found = view.decisions(row["round_id"], broker, from_ms=row["at_ms"], up_to_ms=row["at_ms"])
    return [d for d in found if d["attempt_id"] == row["attempt_id"]]


def broker_document(view: EvidenceView, name: str, alive: bool, since_ms: int = 0) -> Row:
    """The document about a broker. `since_ms`: older decisions about it are not read."""
    last = view.last_round()
    own = _decisions_of(view, last, name) if last else []
    return {
        "about": "broker",
        "broker": name,
        "state": "alive" if alive else "gone",
        "last_round": last,
        "score": view.score(last, name) if last else None,
        "considered": _first_about(own, name),
        "as_target": _as_target(view.naming(name, [last]), name) if last else [],
        "decisions": view.decisions(broker=name, limit=HISTORY, from_ms=since_ms),
    }


def _first_about(decisions: list[Row], broker: str) -> Row | None:
    """The decision of a round whose evidence shows how the broker was evaluated: its first one as a source."""
    own = [d for d in decisions if d["source"] == broker]
    return next((d for d in own if candidates_of(d)), own[0] if own else None)


def _as_target(decisions: list[Row], broker: str) -> list[Row]:
    """The pairs in a round's evidence that have this broker as the target, in the round's order."""
    return [
        {
            **pair,
            "source": decision["source"],
            "decision_id": decision["decision_id"],
            "chosen": is_chosen(pair, decision),
            "result": result_text(pair, decision),
        }
        for decision in decisions
        for pair in candidates_of(decision)
        if pair.get("target") == broker
    ]


def _journal(reader: Reader, **wanted: str) -> list[Row]:
    """The newest entries whose column has this value, oldest of them first."""
    ((column, value),) = wanted.items()
    return [entry.to_row() for entry in reader.newest_entries(column, value, HISTORY)]
