"""The view *Now*: brokers as bars of their worst resource, what is in flight, balance, alarms, who set what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.config.placement_values import placement_settings
from controller.config.policy_values import resource_weights, shed_settings
from controller.config.settings import Settings
from controller.control.policy_commands import CONFIGURED
from controller.domain.errors import without_login
from controller.domain.load import RESOURCES
from controller.operations.balance_score import balance_score
from controller.operations.overview import broker_rows, late_after_ms
from controller.operations.overview import status as status_of
from controller.operations.stopped import with_stop
from controller.policy.strategies import get, names
from controller.ui.cluster import DAY_MS, LiveCluster
from controller.ui.heard import Word
from controller.ui.memory import sender_of

MOST_POINTS = 1_440  # of the balance of a day
Row = dict[str, Any]
_OF_BROKER = (
    "broker", "state", "silent", "drained", "leaving", "bundles", "coming", "score", "mean", "hits", "is_source",
    "reason", "reason_words", "runtime",
)  # fmt: skip


def now(cluster: LiveCluster, word: Word, now_ms: int) -> Row:
    """The document of the view. Raises NoTables."""
    settings, reader, view = cluster.settings, cluster.reader, cluster.evidence()
    placement, late_ms = placement_settings(settings), late_after_ms(settings)
    found = status_of(reader, now_ms, word.heard, word.not_asked, placement, view, late_ms)
    document = with_stop(reader, found, settings.profile, now_ms)
    state = reader.state()
    acting = state.strategy or get(settings.rounds.strategy).name
    return {
        "cluster": settings.cluster.name,
        "tables": without_login(reader.root.root),
        **document,
        "limit": shed_settings(settings).overloaded_threshold,
        "brokers": _brokers(cluster, settings, view),
        "counts": document["brokers"],
        "mode_set": sender_of(cluster.set_by("mode")),
        "strategy": {
            "name": acting,
            "challengers": list(settings.rounds.challengers if state.challengers is None else state.challengers),
            "by_command": bool(state.strategy),
            "choices": [CONFIGURED, *names()],
            "set": sender_of(cluster.set_by("strategy")) if state.strategy or state.challengers is not None else None,
        },
        "overrides": [wish.to_json() for wish in state.overrides.values()],
        "balance": balance_of_day(cluster),
    }


def balance_of_day(cluster: LiveCluster) -> Row:
    """The balance score of the newest round, and of the rounds of the last 24 hours, oldest first."""
    rounds = [row for row in cluster.evidence().rounds() if not row["challenger"]]
    since_ms = rounds[0]["at_ms"] - DAY_MS if rounds else 0
    day = [row for row in reversed(rounds) if row["at_ms"] > since_ms]
    step = -(-len(day) // MOST_POINTS) or 1
    day = day[(len(day) - 1) % step :: step] if day else []  # the newest round is always among them
    scores = [_rounded(balance_score(row["max_score"], row["mean_score"])) for row in day]
    return {"now": scores[-1] if scores else None, "at_ms": [row["at_ms"] for row in day], "scores": scores}


def _brokers(cluster: LiveCluster, settings: Settings, view: Any) -> list[Row]:
    weights = resource_weights(settings)
    rows = []
    for row in broker_rows(cluster.reader, view):
        chosen = {name: row[name] for name in _OF_BROKER}
        rows.append({**chosen, "worst": worst_resource(row["utilisations"], weights), "used": row["utilisations"]})
    return rows


def worst_resource(used: Mapping[str, float | None], weights: Any) -> str | None:
    """The resource that a broker's score is of: the one with the largest weighted utilisation."""
    weighted = {
        name: value * getattr(weights, name)
        for name in RESOURCES
        if (value := used.get(name)) is not None and getattr(weights, name) > 0
    }
    return max(weighted, key=lambda name: weighted[name]) if weighted else None


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 1)
