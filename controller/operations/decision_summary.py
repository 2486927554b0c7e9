"""Sums up the decisions of a span of time: what rounds did, or in shadow would have done, and what they left. Pure.

In shadow nothing moves, so a move that would help is decided again, round after round: it is one row here, with the
number of its decisions. Challengers are left out, as they never act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller.domain.decision import DecisionKind
from controller.operations.evidence_view import carried_out_as
from controller.operations.evidence_words import missed_text
from controller.operations.plans.kept_plans import is_held_back, was_executed
from controller.operations.plans.plan_words import became_text

Row = Mapping[str, Any]
_ONE_ACTION = ("kind", "bundle", "source", "target", "reason")
_COLUMNS = ("gave", "took", "would_give", "would_take")


def summarise(decisions: Iterable[Row], rounds: Iterable[Row]) -> dict[str, Any]:
    """The document of `ballast decisions --summary`, of rows as `EvidenceView` reads them.

    `rounds`: how many by mode, and how many acted or would have. `actions`: one row for each move, placement or split,
    with its `count`, `first_ms` and `last_ms`, how often it was `carried_out` and how often its order `fell_short`, the
    newest outcome, the most often wanted first. `carried_out`: how often any was. `held_back`: how many decisions were
    not carried out because a plan waited or was declined. `brokers`: what each `gave` and `took`, and what it
    `would_give` and `would_take` by actions that were never carried out, each counted once; without those whose orders
    fell short, as their bundles went elsewhere, or nowhere. `left`: what was decided against, by reason.
    """
    ran = [row for row in rounds if not row["challenger"]]
    counted = [row for row in decisions if not row["challenger"]]
    actions = _fold_actions([row for row in counted if row["kind"] != DecisionKind.SKIP.value])
    left = Counter(str(row["reason"]) for row in counted if row["kind"] == DecisionKind.SKIP.value)
    return {
        "rounds": {
            "total": len(ran),
            "by_mode": dict(sorted(Counter(str(row["mode"]) for row in ran).items())),
            "acting": sum(bool(row["moves"] or row["splits"]) for row in ran),
        },
        "decisions": sum(action["count"] for action in actions),
        "carried_out": sum(action["carried_out"] for action in actions),
        "held_back": sum(map(is_held_back, counted)),
        "actions": actions,
        "brokers": _broker_rows(actions),
        "left": [{"reason": reason, "count": count} for reason, count in left.most_common()],
    }


def _fold_actions(decisions: Sequence[Row]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    done: dict[tuple[Any, ...], set[str]] = {}
    for row in sorted(decisions, key=lambda row: row["at_ms"]):
        key = tuple(row[name] for name in _ONE_ACTION)
        new = {**dict(zip(_ONE_ACTION, key, strict=True)), "count": 0, "fell_short": 0, "first_ms": row["at_ms"]}
        action = found.setdefault(key, new)
        action["count"] += 1
        action["last_ms"] = row["at_ms"]
        action["outcome"] = became_text(row)
        action["fell_short"] += bool(missed_text(row))
        done.setdefault(key, set()).update(_done_as(row))
        action["carried_out"] = len(done[key])
    return sorted(found.values(), key=lambda action: (-action["count"], action["first_ms"], str(action["bundle"])))


def _done_as(decision: Row) -> list[str]:
    """The id by which the journal has what a decision caused; none if it was not carried out. A round's decision that
    the control step carried out later, and the step's own, have one id."""
    return [carried_out_as(dict(decision))] if was_executed(decision) and not missed_text(decision) else []


def _broker_rows(actions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[str, Counter[str]] = {}
    for action in actions:
        fell_short = action["fell_short"] and not action["carried_out"]
        if action["kind"] == DecisionKind.SPLIT.value or fell_short:
            continue
        gives, takes = ("gave", "took") if action["carried_out"] else ("would_give", "would_take")
        for broker, column in ((action["source"], gives), (action["target"], takes)):
            if broker is not None:
                counts.setdefault(broker, Counter())[column] += action["carried_out"] or 1
    return [{"broker": name, **{column: counts[name][column] for column in _COLUMNS}} for name in sorted(counts)]
