"""Why: the evidence behind a decision, a round, a broker's standing, or a bundle's history and why it stayed.

Part of every answer is what the journal says happened after, so that "decided" and "done" are never confused.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow.compute as pc

from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError
from controller.domain.ownership import State
from controller.operations.considered import LOOK_BACK, considered
from controller.operations.evidence_view import EvidenceView, candidates_of
from controller.operations.overview import ownership_row
from controller.operations.reading import Reader
from schemas.journal import JOURNAL

HISTORY = 50  # entries and decisions of a bundle or broker that are told
Row = dict[str, Any]


class NothingNamed(BallastError):
    """Raised when no decision, round, broker or bundle has the given name."""


def explain(reader: Reader, name: str, look_back: int = LOOK_BACK) -> Row:
    """The document about whatever has this name; its `about` says what that is. Raises NothingNamed.

    `look_back`: rounds that are searched for a bundle as a candidate.
    """
    view = EvidenceView(reader)
    found = view.decisions(decision_id=name)
    if found:
        return _decision(reader, view, found[0])
    rounds = [row for row in view.rounds() if row["round_id"] == name]
    if rounds:
        return {"about": "round", "rounds": [_round(view, row) for row in rounds]}
    state = reader.state()
    if name in state.brokers:
        return _broker(view, name)
    if name in state.bundles:
        now = ownership_row(state.bundles[name])
        origin = _origin(reader, name)
        cause = origin[0]["decision_id"] if origin else None
        return {
            "about": "bundle",
            "now": now,
            "decisions": [
                *view.decisions(bundle=name, limit=HISTORY),
                *(view.decisions(decision_id=cause) if cause else []),
            ],
            "candidate": considered(view, name, now["owner"], look_back),
            "journal": [*origin, *_journal(reader, bundle=name)],
        }
    of_batch = view.decisions(round_id=name)
    if of_batch:
        return {"about": "batch", "decisions": of_batch}
    raise NothingNamed(
        f"nothing is named {name}: give a decision (`ballast decisions --skips`), a round (`ballast rounds`), "
        "a broker, a bundle or a reason code (docs/reasons.md); evidence older than its retention is gone"
    )


def _decision(reader: Reader, view: EvidenceView, decision: Row) -> Row:
    rounds = [row for row in view.rounds() if row["attempt_id"] == decision["attempt_id"]]
    caused = _consequences(reader, decision["decision_id"])
    return {"about": "decision", "decision": decision, "round": rounds[0] if rounds else None, "journal": caused}


def _consequences(reader: Reader, decision_id: str) -> list[Row]:
    """What a decision set off: the entries that name it, and those of its bundle until somebody owns it again."""
    caused = _journal(reader, decision_id=decision_id)
    if not caused or caused[-1]["kind"] != Kind.OWNERSHIP.value:
        return caused
    after = [row for row in _journal(reader, bundle=caused[-1]["bundle"]) if row["seq"] > caused[-1]["seq"]]
    for row in after:
        caused.append(row)
        if row["state"] == State.OWNED.value or row["kind"] != Kind.OWNERSHIP.value:
            break
    return caused


def _origin(reader: Reader, bundle: str) -> list[Row]:
    """The entry by which the bundle became one: the split of its parent; none for a namespace's first bundles."""
    rows = reader.rows("journal", "seq", columns=JOURNAL.names)
    splits = rows.filter(pc.equal(rows["kind"], Kind.SPLIT.value))
    named = splits.filter(pc.match_substring(splits["data"], json.dumps(bundle))).sort_by("seq")
    return [Entry.from_row(row).to_row() for row in named.to_pylist()[:1]]


def _round(view: EvidenceView, row: Row) -> Row:
    decisions = _decisions_of(view, row)
    return {"round": row, "scores": view.scores(row), "decisions": decisions}


def _decisions_of(view: EvidenceView, row: Row) -> list[Row]:
    return [d for d in view.decisions(round_id=row["round_id"]) if d["attempt_id"] == row["attempt_id"]]


def _broker(view: EvidenceView, name: str) -> Row:
    last = view.last_round()
    scores = [row for row in view.scores(last) if row["broker"] == name] if last else []
    of_round = _decisions_of(view, last) if last else []
    return {
        "about": "broker",
        "broker": name,
        "last_round": last,
        "score": scores[0] if scores else None,
        "considered": _considered(of_round, name),
        "as_target": _as_target(of_round, name),
        "decisions": view.decisions(broker=name, limit=HISTORY),
    }


def _considered(decisions: list[Row], broker: str) -> Row | None:
    """The decision of a round that tells what the broker was judged by: its first one about giving something away."""
    own = [d for d in decisions if d["source"] == broker]
    return next((d for d in own if candidates_of(d)), own[0] if own else None)


def _as_target(decisions: list[Row], broker: str) -> list[Row]:
    """Pairs of a round's evidence with this broker as the target, in the round's order."""
    return [
        {**pair, "source": decision["source"], "decision_id": decision["decision_id"]}
        for decision in decisions
        for pair in candidates_of(decision)
        if pair.get("target") == broker
    ]


def _journal(reader: Reader, **wanted: str) -> list[Row]:
    """The newest entries whose column has this value, oldest of them first."""
    ((column, value),) = wanted.items()
    rows = reader.rows("journal", "seq", columns=JOURNAL.names)
    chosen = rows.filter(pc.equal(rows[column], value)).sort_by("seq")
    return [Entry.from_row(row).to_row() for row in chosen.to_pylist()[-HISTORY:]]
