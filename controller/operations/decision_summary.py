"""Sums up the decisions of a span of time: what rounds did, or in shadow would have done, and what they left. Pure.

In shadow nothing moves, so a move that would help is decided again, round after round: it is one row here, with the
number of its decisions. Challengers are left out, as they never act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller.domain.decision import DecisionKind
from controller.operations.plans.kept_plans import is_held_back
from controller.operations.plans.plan_words import outcome_text

Row = Mapping[str, Any]
_ONE_ACTION = ("kind", "bundle", "source", "target", "reason")


def summarise(decisions: Iterable[Row], rounds: Iterable[Row]) -> dict[str, Any]:
    """The document of `ballast decisions --summary`, of rows as `EvidenceView` reads them.

    `rounds`: how many by mode, and how many acted or would have. `actions`: one row for each move, placement or split,
    with its `count`, `first_ms` and `last_ms`, the newest outcome, the most often wanted first. `held_back`: how many
    decisions were not carried out because a plan waited or was declined. `brokers`: what each gives and takes, actions
    counted once. `left`: what was decided against, by reason.
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
        "held_back": sum(map(is_held_back, counted)),
        "actions": actions,
        "brokers": _broker_rows(actions),
        "left": [{"reason": reason, "count": count} for reason, count in left.most_common()],
    }


def _fold_actions(decisions: Sequence[Row]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(decisions, key=lambda row: row["at_ms"]):
        key = tuple(row[name] for name in _ONE_ACTION)
        new = {**dict(zip(_ONE_ACTION, key, strict=True)), "count": 0, "first_ms": row["at_ms"]}
        action = found.setdefault(key, new)
        action["count"] += 1
        action["last_ms"] = row["at_ms"]
        plan = row.get("plan")
        action["outcome"] = (outcome_text(plan) if plan else "") or row["outcome"] or row["label"]
    return sorted(found.values(), key=lambda action: (-action["count"], action["first_ms"], str(action["bundle"])))


def _broker_rows(actions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    gives, takes = Counter[str](), Counter[str]()
    for action in actions:
        if action["target"] is not None:
            takes[action["target"]] += 1
            if action["source"] is not None:
                gives[action["source"]] += 1
    return [{"broker": b, "gives": gives[b], "takes": takes[b]} for b in sorted(gives.keys() | takes.keys())]
