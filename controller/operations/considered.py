"""Why a bundle stayed: the rounds that weighed it up and the rule it lost by, or why none did.

Looks back a number of rounds of the strategy in charge; only the evidence of those that name the bundle is parsed.
"""

from __future__ import annotations

from typing import Any

from controller.operations.evidence_view import EvidenceView, candidates_of, giver_of

LOOK_BACK = 20
Row = dict[str, Any]


def considered(view: EvidenceView, bundle: str, owner: str | None, look_back: int = LOOK_BACK) -> Row:
    """`times`: one row a round in which the bundle was a candidate and stayed, newest first, with its best pair.

    `why_not` is there when there is no such round: what the last round says of the owner.
    """
    rounds = [row for row in view.rounds() if not row["challenger"]][:look_back]
    times = _times(view.naming(bundle, rounds), bundle)
    searched: Row = {"rounds": len(rounds), "since_ms": rounds[-1]["at_ms"] if rounds else None, "times": times}
    return searched if times else {**searched, "why_not": _why_not(view, rounds, owner)}


def _times(decisions: list[Row], bundle: str) -> list[Row]:
    """Of each round that left the bundle where it was, its first pair, and what was chosen instead."""
    moved = {(d["attempt_id"], d["bundle"]) for d in decisions if d["kind"] != "skip"}
    found: dict[str, Row] = {}
    for decision in decisions:
        if (decision["attempt_id"], bundle) in moved or decision["attempt_id"] in found:
            continue
        pairs = [pair for pair in candidates_of(decision) if pair["bundle"] == bundle]
        if pairs:
            found[decision["attempt_id"]] = {
                **{name: decision[name] for name in ("at_ms", "round_id", "decision_id", "strategy")},
                "source": giver_of(decision),
                "pairs": len(pairs),
                **pairs[0],
                "won": None if decision["kind"] == "skip" else {n: decision[n] for n in ("bundle", "target")},
            }
    return list(found.values())


def _why_not(view: EvidenceView, rounds: list[Row], owner: str | None) -> Row | None:
    """What the last round said of the owner; None without a round or an owner that it knew."""
    if not rounds or owner is None:
        return None
    score = next((row for row in view.scores(rounds[0]) if row["broker"] == owner), None)
    if score is None:
        return None
    told = ("broker", "score", "mean", "hits", "is_source", "reason", "reason_words")
    last = {name: rounds[0][name] for name in ("round_id", "at_ms")}
    own = (d for d in view.decisions(round_id=last["round_id"], broker=owner) if d["source"] == owner)
    lost: Row = next((d["evidence"]["bundles_lost"] for d in own if d["evidence"].get("bundles_lost")), {})
    return {**last, **{name: score[name] for name in told}, "bundles_lost": lost}
