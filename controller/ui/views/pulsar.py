"""The view *Pulsar*: what Ballast requires of the cluster, open orders, how orders ended. By what the journal says."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from controller.config.placement_values import placement_settings
from controller.domain.entries import Entry, Kind
from controller.domain.facts import POLICIES, SUSPECT
from controller.domain.reasons.words import describe_reason
from controller.domain.state import METADATA
from controller.operations.adoption_text import adoption_sentence
from controller.operations.bundles import find_order_obstacle
from controller.operations.pulsar_requirements import judge_adoption, judge_requirements
from controller.ui.cluster import LiveCluster

MOST_ENDED = 200
Row = dict[str, Any]


def pulsar(cluster: LiveCluster) -> Row:
    """The document of the view; only `driven` where no Pulsar cluster is."""
    state = cluster.state()
    if state.authority != METADATA:
        return {"driven": False}
    observed, configured = state.observed, placement_settings(cluster.settings)
    policies = {key: fact for key, fact in observed.facts.items() if key.startswith(POLICIES)}
    brokers = [broker.id for broker in state.live_brokers()]
    requirements = list(judge_requirements(brokers, observed.facts, policies, configured))
    adopted = judge_adoption(observed.adoption)
    _, recent = cluster.recent()
    began = {str(e.data.get("id")): e for e in recent if e.kind is Kind.ORDER}
    ended = [entry for entry in reversed(recent) if entry.kind is Kind.ORDER_ENDED]
    return {
        "driven": True,
        "adoption": adoption_sentence(observed.adoption),
        "obstacle": find_order_obstacle(state, configured),
        "requirements": [asdict(one) for one in ([adopted] if adopted else []) + requirements],
        "suspects": [
            {"broker": key.removeprefix(SUSPECT), "why": fact.get("why")}
            for key, fact in sorted(observed.facts.items())
            if key.startswith(SUSPECT)
        ],
        "orders": [
            {
                "id": order.id,
                "kind": order.kind.value,
                "bundle": str(order.bundle),
                "source": order.source,
                "target": order.target,
                "reason": describe_reason(order.reason) or order.reason,
                "decision_id": order.decision_id,
                "command_id": order.command_id,
                "at_ms": began[order.id].at_ms if order.id in began else None,
            }
            for order in sorted(observed.orders.values(), key=lambda order: order.seq)
        ],
        "outcomes": dict(Counter(str(entry.data.get("outcome")) for entry in ended).most_common()),
        "ended": [_ended_row(entry, began.get(str(entry.data.get("id")))) for entry in ended[:MOST_ENDED]],
        "blocked": sum(block.failures > 0 for block in observed.blocks.values()),
    }


def _ended_row(entry: Entry, began: Entry | None) -> Row:
    data = entry.data
    of = began.data if began is not None else {}
    return {
        "seq": entry.seq,
        "at_ms": entry.at_ms,
        "bundle": entry.bundle,
        "owner": entry.broker,
        "kind": of.get("kind"),
        "source": of.get("source"),
        "target": of.get("target"),
        "outcome": data.get("outcome"),
        "took_ms": data.get("took_ms"),
        "detail": str(data.get("detail") or ""),
    }
