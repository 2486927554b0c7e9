"""Encodes a cluster state as JSON and decodes it: the base snapshot that a fold starts from (invariant I4).

Decoding makes a million objects of a snapshot with 100,000 bundles and none of them is garbage, so the collector pauses
meanwhile: it would go through all of them again and again.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from controller.domain.decision import KeptPlan
from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle, Session
from controller.domain.observed import (
    Adoption,
    Block,
    Observation,
    ObservedCluster,
    Order,
    OrderKind,
)
from controller.domain.overrides import Override
from controller.domain.ownership import Ownership, State
from controller.domain.state import Broker, ClusterState

_PLAIN = (
    "seq", "instance", "controller_running", "mode", "frozen", "topics", "offsets", "kafka",
    "round_at_ms", "round_memory", "round_id", "round_seq", "rounds", "round_wanted", "round_wanted_seq", "thawing",
    "strategy", "policy_seq", "journal_id", "epoch_floor",
)  # fmt: skip
_OWNERSHIP = tuple(f.name for f in fields(Ownership) if f.name != "bundle")
_STATES = {state.value: state for state in State}


def encode(state: ClusterState) -> str:
    """Canonical JSON: equal states give equal text."""
    document: dict[str, Any] = {name: getattr(state, name) for name in _PLAIN}
    document["brokers"] = {
        b.id: [str(b.session), dict(b.info), b.drained, b.leaving, b.seq] for b in state.brokers.values()
    }
    document["sessions"] = {str(s): seq for s, seq in state.sessions.items()}
    document["bundles"] = {name: _encode_ownership(record) for name, record in state.bundles.items()}
    document["namespaces"] = {ns: [str(b) for b in bundles] for ns, bundles in state.namespaces.items()}
    document["observed"] = {}  # older versions read it; they know observed bundles by broker only
    document["observed_cluster"] = _encode_observed(state.observed)
    document["silent"] = list(state.silent)
    document["challengers"] = None if state.challengers is None else list(state.challengers)
    document["overrides"] = [wish.to_json() for wish in state.overrides.values()]  # in insertion order
    document["plan"] = None if state.plan is None else state.plan.to_json()
    document["commands"] = list(state.commands.items())  # the order decides which are forgotten first
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decode(text: str) -> ClusterState:
    """Decode what `encode` returned."""
    with collector_paused():
        return decode_document(json.loads(text))


def decode_document(document: Mapping[str, Any]) -> ClusterState:
    """The state of a snapshot that has been parsed. Of fewer `bundles` and `namespaces` it is a part of the state."""
    sessions = _Sessions()  # of 1,000 brokers, named by 100,000 bundles
    state = ClusterState(**{name: document[name] for name in _PLAIN if name in document})
    for broker, (session, info, drained, leaving, seq) in document["brokers"].items():
        state.brokers[broker] = Broker(broker, sessions[session], info, drained, leaving, seq)
    state.sessions = {sessions[s]: seq for s, seq in document["sessions"].items()}
    state.bundles = {name: _decode_ownership(name, row, sessions) for name, row in document["bundles"].items()}
    state.observed = _decode_observed(document.get("observed_cluster", {}))
    state.holdings = Holdings.of_bundles(state.bundles, state.observed)
    state.namespaces = {ns: tuple(map(Bundle.parse, names)) for ns, names in document["namespaces"].items()}
    state.commands = dict(document["commands"])
    state.silent = tuple(document.get("silent", ()))
    challengers = document.get("challengers")
    state.challengers = None if challengers is None else tuple(challengers)
    state.overrides = {wish.id: wish for wish in map(Override.from_json, document.get("overrides", ()))}
    plan = document.get("plan")
    state.plan = None if plan is None else KeptPlan.from_json(plan)
    return state


def _encode_observed(cluster: ObservedCluster) -> dict[str, Any]:
    return {
        "bundles": {
            name: [seen.broker, seen.seq, seen.moved_at_ms, seen.stale, seen.disputed]
            for name, seen in cluster.bundles.items()
        },
        "orders": {name: _encode_order(order) for name, order in cluster.orders.items()},
        "blocks": {name: [b.in_doubt_seq, b.not_before_ms, b.failures] for name, b in cluster.blocks.items()},
        "rings": {namespace: list(boundaries) for namespace, boundaries in cluster.rings.items()},
        "facts": {key: dict(value) for key, value in cluster.facts.items()},
        "range_blocks": dict(cluster.range_blocks),
        "settled_at_ms": dict(cluster.settled_at_ms),
        "adoption": cluster.adoption.to_json() if cluster.adoption is not None else None,
    }


def _encode_order(order: Order) -> dict[str, Any]:
    row = {name: getattr(order, name) for name in Order.__dataclass_fields__ if name != "bundle"}
    return {**row, "kind": order.kind.value}


def _decode_observed(document: dict[str, Any]) -> ObservedCluster:
    cluster = ObservedCluster()
    for name, row in document.get("bundles", {}).items():
        cluster.bundles[name] = Observation(Bundle.parse(name), *row)
    for name, row in document.get("orders", {}).items():
        cluster.orders[name] = Order(bundle=Bundle.parse(name), **{**row, "kind": OrderKind(row["kind"])})
    cluster.blocks = {name: Block(*row) for name, row in document.get("blocks", {}).items()}
    cluster.rings = {namespace: tuple(boundaries) for namespace, boundaries in document.get("rings", {}).items()}
    cluster.facts = dict(document.get("facts", {}))
    cluster.range_blocks = {text: str(name) for text, name in document.get("range_blocks", {}).items()}
    cluster.settled_at_ms = dict(document.get("settled_at_ms", {}))
    adoption = document.get("adoption")
    cluster.adoption = None if adoption is None else Adoption.from_json(adoption)
    return cluster


def _encode_ownership(record: Ownership) -> dict[str, Any]:
    row: dict[str, Any] = {name: value for name in _OWNERSHIP if (value := getattr(record, name))}
    row["state"] = record.state.value
    for party in ("by", "to", "fencer"):
        if getattr(record, party) is not None:
            row[party] = str(getattr(record, party))
    if record.boundary is not None:
        row["boundary"] = record.boundary
    return row


class _Sessions(dict[str, Session]):
    """Text form -> session, each parsed once."""

    def __missing__(self, text: str) -> Session:
        session = self[text] = Session.parse(text)
        return session


def _decode_ownership(name: str, row: Mapping[str, Any], sessions: _Sessions) -> Ownership:
    """The record of a row: by field, since a loop over all of them takes three times as long."""
    get = row.get
    by, to, fencer = get("by"), get("to"), get("fencer")
    return Ownership(
        Bundle.parse(name),
        _STATES[row["state"]],
        get("epoch", 0),
        None if by is None else sessions[by],
        None if to is None else sessions[to],
        get("seq", 0),
        get("released", False),
        get("fence", False),
        None if fencer is None else sessions[fencer],
        get("boundary"),
        get("send_on", False),
        get("cause", ""),
        get("ever_owned", False),
        get("moved_at_ms", 0),
        get("moving_at_ms", 0),
    )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector of this process from running, unless somebody else does already."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
