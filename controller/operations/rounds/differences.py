"""The difference between two plans for one round: what only one of them does, and what they would bring.

Decisions about one bundle are held against each other: the same bundle to another target is one change, not two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.operations.balance_score import balance_score_of
from controller.operations.rounds.what_if import Alternative

SAME, ONLY_FIRST, ONLY_SECOND, OTHERWISE = "same", "only_first", "only_second", "otherwise"
Row = dict[str, Any]


def compare(first: Alternative, second: Alternative) -> Row:
    """The document of `ballast diff`: head, changes, verdicts about brokers, predicted scores, notes."""
    changes = _compare_actions(first.actions, second.actions)
    return {
        "round_id": first.of_round["round_id"],
        "at_ms": first.of_round["at_ms"],
        "mode": first.of_round["mode"],
        "first": _head(first),
        "second": _head(second),
        "same": all(row["change"] == SAME for row in changes),
        "changes": changes,
        "brokers": _compare_brokers(first, second),
        "note": second.note,
    }


def _head(plan: Alternative) -> Row:
    before, after = plan.scores, plan.scores_after()
    return {
        "strategy": plan.strategy,
        "rules": plan.rules,
        "stored": plan.stored,
        **plan.count(),
        "highest_before": max(before.values(), default=None),
        "highest_after": max(after.values(), default=None),
        "balance_after": balance_score_of(after.values()),
    }


def _compare_actions(first: Sequence[Row], second: Sequence[Row]) -> list[Row]:
    """A row for each bundle that either plan acts on, in the first plan's order, then in the second's."""
    theirs = {row["bundle"]: row for row in second}
    rows = [_change(row["bundle"], row, theirs.pop(row["bundle"], None)) for row in first]
    return rows + [_change(bundle, None, row) for bundle, row in theirs.items()]


def _change(bundle: str, first: Row | None, second: Row | None) -> Row:
    if first is None or second is None:
        change = ONLY_FIRST if second is None else ONLY_SECOND
    else:
        change = SAME if _deed(first) == _deed(second) else OTHERWISE
    return {"change": change, "bundle": bundle, "first": _short(first), "second": _short(second)}


def _deed(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("kind", "bundle", "source", "target", "boundary"))


def _short(row: Row | None) -> Row | None:
    """A decision without its evidence."""
    kept = ("decision_id", "kind", "source", "target", "boundary", "reason", "reason_words", "outcome", "before",
            "after")  # fmt: skip
    return None if row is None else {name: row[name] for name in kept}


def _compare_brokers(first: Alternative, second: Alternative) -> list[Row]:
    """A row for each broker, highest score first: its score, what each strategy says of it, the predicted scores."""
    after, theirs = first.scores_after(), second.scores_after()
    names = sorted({*first.verdicts, *second.verdicts}, key=lambda name: (-first.scores.get(name, -1.0), name))
    return [
        {
            "broker": name,
            "score": first.scores.get(name),
            "first_reason": first.verdicts.get(name) or None,
            "second_reason": second.verdicts.get(name) or None,
            "first_after": after.get(name),
            "second_after": theirs.get(name),
        }
        for name in names
    ]
