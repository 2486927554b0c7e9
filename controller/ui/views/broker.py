"""The view *Broker*: its load over a day, what it holds, why rounds took bundles from it or gave it some."""

from __future__ import annotations

import math
from typing import Any

from controller.config.policy_values import resource_weights, shed_settings
from controller.domain.overrides import Override
from controller.operations.evidence_words import score_text
from controller.operations.explain import HISTORY, broker_document
from controller.operations.overview import broker_rows
from controller.operations.reading import NothingNamed
from controller.operations.why.commanded import commands_about_broker
from controller.ui.cluster import DAY_MS, LiveCluster
from controller.ui.loads import NewestLoads
from controller.ui.views.now import worst_resource
from controller.ui.views.words import decision_document, decision_row

HOUR_MS = 3_600_000
MOST_BUNDLES = 200  # the busiest; the map shows all
Row = dict[str, Any]


def broker(cluster: LiveCluster, loads: NewestLoads, name: str, now_ms: int) -> Row:
    """The document of the view. Raises NothingNamed."""
    reader, view, state = cluster.reader, cluster.evidence(), cluster.state()
    own = next((row for row in broker_rows(reader, view) if row["broker"] == name), None)
    if own is None:
        raise NothingNamed(f"no broker is named {name}")
    since_ms = cluster.day_since_ms(now_ms)
    found = broker_document(view, name, own["state"] == "alive", since_ms + DAY_MS - HOUR_MS)
    if len(found["decisions"]) < HISTORY:  # rounds decide about every broker: an hour is enough, but at the beginning
        found["decisions"] = view.decisions(broker=name, limit=HISTORY, from_ms=since_ms)
    held = _held(cluster, loads, name)
    return {
        "broker": own,
        "worst": worst_resource(own["utilisations"], resource_weights(cluster.settings)),
        "limit": shed_settings(cluster.settings).overloaded_threshold,
        "history": cluster.history.of_broker(name),
        "held": len(held),
        "bundles": held[:MOST_BUNDLES],
        "considered": decision_document(found["considered"]) if found["considered"] else None,
        "as_target": [
            {**row, "target_after": score_text(row.get("target_after"))} for row in found["as_target"][:MOST_BUNDLES]
        ],
        "decisions": [decision_row(row) for row in found["decisions"]],
        "last_round": found["last_round"] and {n: found["last_round"][n] for n in ("round_id", "at_ms", "strategy")},
        "commands": commands_about_broker(reader, name),
        "overrides": [wish.to_json() for wish in state.overrides.values() if _names(wish, name)],
    }


def _held(cluster: LiveCluster, loads: NewestLoads, name: str) -> list[Row]:
    """The bundles that it owns or will get, busiest first."""
    state = cluster.state()
    found: list[Row] = [
        {"bundle": str(record.bundle), "state": record.state.value, "moved_at_ms": record.moved_at_ms or None}
        for record in state.bundles.values()
        if (record.by is not None and record.by.broker == name) or (record.to is not None and record.to.broker == name)
    ]
    found += [
        {"bundle": bundle, "state": state.observed.state_of(bundle), "moved_at_ms": seen.moved_at_ms or None}
        for bundle, seen in state.observed.bundles.items()
        if name in (seen.broker, state.observed.holder(bundle))
    ]
    own = loads.get(cluster.reader, cluster.versions.loads).of([row["bundle"] for row in found])
    for row, msg_rate, throughput in zip(found, own.msg_rate.tolist(), own.throughput.tolist(), strict=True):
        known = not math.isnan(throughput)
        row |= {"msg_rate": msg_rate if known else None, "throughput": throughput if known else None}
    return sorted(found, key=lambda row: (-(row["throughput"] or 0.0), row["bundle"]))


def _names(wish: Override, broker: str) -> bool:
    return wish.broker == broker
