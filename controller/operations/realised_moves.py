"""Executed moves of stored rounds, predicted against realised (`controller/policy/usage/realised.py`).

Only rounds whose frame has estimates say anything. Challengers' rounds move nothing and are not read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from controller.domain.decision import EARLY, EXECUTED
from controller.domain.errors import BadRecord
from controller.operations.evidence_view import EvidenceView
from controller.operations.evidence_words import missed_text
from controller.operations.plans.kept_plans import MOVE_KINDS, was_executed
from controller.operations.text import count_text
from controller.policy.usage.judged import (
    BY_TRAFFIC,
    FULL_END,
    NOT_YET,
    OTHER_TRAFFIC,
    RESTARTED,
    ROUNDS,
    UNREADABLE,
    Judged,
    Move,
)

NEWEST = 5  # rounds judged for one document; each takes six stored frames and more
Row = dict[str, Any]
_WHY_NOT = {
    FULL_END: "the broker was at its limit",
    RESTARTED: "the broker restarted, or was not there all the time",
    UNREADABLE: "a reading of its usage is missing",
    BY_TRAFFIC: "load had just shifted, and readings of usage may be of the time before",
    OTHER_TRAFFIC: "the broker gained or lost more other traffic than it carried",
}


def judge_moves(view: EvidenceView, decisions: Sequence[Row], window_ms: int) -> list[Row]:
    """What became of the newest rounds of these decisions: a row for each broker that moves left or reached.

    `window_ms`: how long a reading may still hold load from before a move. Judged together are all moves that were
    carried out in the time of a round, not only these; a row's `decisions` are their ids. Brokers that none of
    `decisions` moved from or to are left out.
    """
    moved = [row for row in decisions if is_executed_move(row)]
    if not moved:
        return []
    rounds = _Rounds(sorted((row for row in view.rounds() if not row["challenger"]), key=_seq_of))
    ends: dict[int, set[str]] = {}
    for row in moved:
        at = rounds.place_of(row)
        if at is not None:
            ends.setdefault(at, set()).update(row[end] for end in ("source", "target"))
    return [
        row
        for at in sorted(ends, reverse=True)[:NEWEST]
        for row in _judge_round(view, rounds, at, window_ms)
        if row["broker"] in ends[at]
    ]


def is_executed_move(decision: Row) -> bool:
    """Whether a decision moved a bundle, at once or when it was approved, and to where it decided."""
    return decision["kind"] in MOVE_KINDS and was_executed(decision) and not missed_text(decision)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """Those of the strategy in charge, oldest first, and where each is."""

    rows: Sequence[Row]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {row["attempt_id"]: at for at, row in enumerate(self.rows)}

    def place_of(self, decision: Row) -> int | None:
        """The place of the round in whose time a move was carried out: the newest one then, if it waited for an
        approval, else the one that decided it. None for a move that no round wanted."""
        plan = decision.get("plan")
        if plan is not None and plan["outcome_seq"] is not None:
            return self.newest_at(plan["outcome_seq"])
        return self._places.get(decision["attempt_id"])

    def newest_at(self, seq: int) -> int:
        """The place of the last round that the journal had at that entry."""
        return bisect_right(self.rows, seq, key=_seq_of) - 1


def _seq_of(row: Row) -> int:
    return int(row["seq"])


def _moves_in_time_of(view: EvidenceView, rounds: _Rounds, at: int) -> list[Row]:
    """All decisions of rounds that were carried out in the time of this one."""
    approved = {
        plan["round_id"]
        for plan in view.plans()
        for move in plan["moves"]
        if move["outcome"] == EXECUTED and rounds.newest_at(move["outcome_seq"]) == at
    }
    of_rounds = (view.decisions(round_id=one, skips=False) for one in sorted({rounds.rows[at]["round_id"], *approved}))
    return [row for found in of_rounds for row in found if is_executed_move(row) and rounds.place_of(row) == at]


def _judge_round(view: EvidenceView, rounds: _Rounds, at: int, window_ms: int) -> list[Row]:
    """Of one round, by the stored rounds around it."""
    from controller.policy.usage.realised import judge  # the usage model: most documents have no move to judge
    from controller.policy.view.frame import Frame

    deciding = rounds.rows[at]
    rows = [row for row in rounds.rows if row is deciding or not row["round_id"].endswith(EARLY)]
    at_ms = [row["at_ms"] for row in rows]
    place, first = rows.index(deciding), bisect_right(at_ms, deciding["at_ms"] + window_ms)
    chosen = [*rows[max(0, place - ROUNDS + 1) : place + 1], *rows[max(first, place + 1) : first + ROUNDS]]
    stored = view.inputs([row["attempt_id"] for row in chosen], chosen[0]["wall_ms"], chosen[-1]["wall_ms"])
    if "estimates" not in stored[deciding["attempt_id"]]["frame"]:
        return []
    try:
        frames = [Frame.from_json(stored[row["attempt_id"]]["frame"]) for row in chosen]
    except BadRecord:  # stored by another version
        return []
    number = next(n for n, row in enumerate(chosen) if row is deciding)
    own = _moves_in_time_of(view, rounds, at)
    moves = [Move(number, row["bundle"], row["source"], row["target"]) for row in own]
    judged = judge(frames, moves, window_ms)
    if stored[deciding["attempt_id"]].get("by_traffic"):
        judged = [replace(one, realised=None, why_not=BY_TRAFFIC, missing=0) for one in judged]
    return [_row_of(deciding, found, own) for found in judged]


def _row_of(deciding: Row, found: Judged, moves: Sequence[Row]) -> Row:
    facts = {name: value for name, value in asdict(found).items() if name not in ("round", "missing")}
    return {
        "round_id": deciding["round_id"],
        "at_ms": deciding["at_ms"],
        **facts,
        "why_not": found.why_not or None,
        "rounds_to_go": found.missing,
        "inside": found.inside if found.realised is not None else None,
        "decisions": [row["decision_id"] for row in moves if found.broker in (row["source"], row["target"])],
    }


def realised_text(row: Mapping[str, Any]) -> str:
    """What the moves were predicted to change the broker's usage by, and what they did or why nobody can tell."""
    predicted = f"predicted {_points(row['predicted'])}{' (cost assumed)' if row['by_prior'] else ''}"
    if row["realised"] is not None:
        outside = "" if row["inside"] else ", outside the interval"
        return f"{predicted}, realised {_points(row['realised'])}{outside}"
    if row["why_not"] == NOT_YET:
        left = row["rounds_to_go"]
        return f"{predicted}, not judged yet: it takes {count_text(left, 'more round')}"
    return f"{predicted}, not judged: {_WHY_NOT[row['why_not']]}"


def interval_text(row: Mapping[str, Any]) -> str:
    """The 90 % interval around what was predicted; one wider than all that the broker has says nothing."""
    return f"±{100 * row['half_width']:.1f} %" if row["half_width"] <= 1.0 else "unknown"


def _points(share: float) -> str:
    """`−6.1 %` of the limit, with a sign."""
    rounded = round(100 * share, 1)
    return f"{'−' if rounded < 0 else '+'}{abs(rounded):.1f} %"
