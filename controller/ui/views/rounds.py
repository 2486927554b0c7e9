"""The view *Rounds*: a timeline; a round opens into its plan, those of challengers, and what others would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.domain.decision import DecisionKind
from controller.domain.load import RESOURCES
from controller.operations.balance_score import balance_score
from controller.operations.plans.plan_words import approval_text, plan_text
from controller.operations.reading import NothingNamed
from controller.operations.rounds.what_if import plan_by
from controller.policy.strategies import names
from controller.ui.cluster import LiveCluster
from controller.ui.views.words import decision_document, decision_row

PAGE = 200  # rounds at a time
MOST_SKIPS = 200  # of a plan, those of the most loaded brokers; their number is told
_KEPT = (
    "round_id", "at_ms", "seq", "strategy", "challenger", "mode", "rules", "moves", "splits", "skips", "mean_score",
    "max_score", "duration_ms", "plan_hash", "config_version", "code_version", "state_seq",
)  # fmt: skip
Row = dict[str, Any]


def rounds(cluster: LiveCluster, before_ms: int | None) -> Row:
    """PAGE rounds of the strategy in charge, newest first, with what their challengers planned."""
    view = cluster.evidence()
    everything = view.rounds()
    leading = [row for row in everything if not row["challenger"] and (before_ms is None or row["at_ms"] < before_ms)]
    chosen = leading[:PAGE]
    wanted = {row["round_id"] for row in chosen}
    others: dict[str, list[Row]] = {}
    for row in everything:
        if row["challenger"] and row["round_id"] in wanted:
            others.setdefault(row["round_id"], []).append({n: row[n] for n in ("strategy", "moves", "splits")})
    told = view.with_plans(chosen)
    rows = [{**_round_row(row), "challengers": others.get(row["round_id"], [])} for row in told]
    return {"rounds": rows, "more": len(leading) > len(chosen), "kept": len(leading)}


def round_(cluster: LiveCluster, round_id: str) -> Row:
    """The plan of the strategy in charge first, then those of its challengers. Raises NothingNamed."""
    view = cluster.evidence()
    everything = view.rounds()
    found = sorted((r for r in everything if r["round_id"] == round_id), key=lambda r: (r["challenger"], r["strategy"]))
    if not found:
        raise NothingNamed(f"no round is named {round_id}: `ballast rounds` lists those that are kept")
    at_ms = found[0]["at_ms"]
    decisions = view.decisions(round_id=round_id, from_ms=at_ms, up_to_ms=at_ms)
    plans = [
        _plan(_round_row(row), [d for d in decisions if d["attempt_id"] == row["attempt_id"]])
        for row in view.with_plans(found)
    ]
    plans[0]["because"] = view.why_round(found[0])
    leading = [row for row in everything if not row["challenger"]]
    place = next((at for at, row in enumerate(leading) if row["round_id"] == round_id), None)
    return {
        "plans": plans,
        "scores": [_score_row(row) for row in view.scores(found[0])],
        "newer": leading[place - 1]["round_id"] if place else None,
        "older": leading[place + 1]["round_id"] if place is not None and place + 1 < len(leading) else None,
        "strategies": names(),
    }


def would_have_done(cluster: LiveCluster, round_id: str, strategy: str) -> Row:
    """What this strategy would have decided in a stored round. Raises NothingNamed, ConfigError, BadRecord."""
    view = cluster.evidence()
    found = plan_by(view, round_id, strategy)
    head = {
        **_round_row({**found.of_round, "plan": None, "held_back": 0}),
        "strategy": found.strategy,
        "challenger": True,
        "rules": found.rules,
    }
    return {"plan": _plan({**head, **found.count()}, found.decisions), "note": found.note}


def decision(cluster: LiveCluster, decision_id: str) -> Row:
    """One decision with all of its evidence. Raises NothingNamed."""
    view = cluster.evidence()
    of = {decision_id.rsplit("-", parts)[0] for parts in (1, 2)}  # ROUND-NUMBER, or ROUND-STRATEGY-NUMBER
    rounds = [row for row in view.rounds() if row["round_id"] in of]
    at_ms = rounds[0]["at_ms"] if rounds else None
    found = view.decisions(decision_id=decision_id, from_ms=at_ms or 0, up_to_ms=at_ms)
    if not found:
        raise NothingNamed(f"no decision is named {decision_id}; evidence older than its retention is gone")
    own = next((row for row in rounds if row["attempt_id"] == found[0]["attempt_id"]), None)
    ahead, told = view.why_ahead(found[0], own), decision_document(found[0])
    return {**told, "sentences": [*told["sentences"], *([ahead] if ahead else [])]}


def _plan(head: Row, decisions: Sequence[Mapping[str, Any]]) -> Row:
    """A round's row with its decisions: what it does in order, then what it left."""
    rows = [decision_row(row) for row in decisions]
    doing = [row for row in rows if row["kind"] != DecisionKind.SKIP.value]
    skips = sorted(
        (row for row in rows if row["kind"] == DecisionKind.SKIP.value), key=lambda r: -(r["before"][0] or 0)
    )
    return {**head, "decisions": doing, "left": skips[:MOST_SKIPS], "left_more": max(0, len(skips) - MOST_SKIPS)}


def _round_row(row: Row) -> Row:
    """Of a row that tells its plan. `approval`: what its moves wait for, or came to, in a word or two; `plan`: what
    became of a plan that waited for an operator; None where the round left none waiting."""
    score, plan = balance_score(row["max_score"], row["mean_score"]), row["plan"]
    told = {
        "balance": None if score is None else round(score, 1),
        "approval": approval_text(row),
        "plan": plan and {**plan, "text": plan_text(plan)},
    }
    return {**{name: row[name] for name in _KEPT}, **told}


def _score_row(row: Mapping[str, Any]) -> Row:
    used = {name: row[f"{name}_utilisation"] for name in RESOURCES}
    kept = ("broker", "score", "mean", "hits", "eligible", "is_source", "reason", "reason_words")
    return {**{name: row[name] for name in kept}, "used": used}
