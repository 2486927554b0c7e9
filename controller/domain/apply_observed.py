"""Applies the entries about an observed cluster: observations, rings, orders, facts, adoption. Part of the fold."""

from __future__ import annotations

from dataclasses import replace

from controller.domain.entries import Entry
from controller.domain.errors import InvariantBroken
from controller.domain.facts import LEADER, POLICIES
from controller.domain.ids import Bundle
from controller.domain.observed import (
    BACKS_OFF,
    IN_DOUBT,
    Adoption,
    AdoptionPhase,
    Block,
    Observation,
    Order,
    OrderKind,
    OrderOutcome,
    bundles_of_ring,
    changes_between,
    is_ring,
)
from controller.domain.state import ClusterState


def apply_observed(state: ClusterState, entry: Entry) -> None:
    """Update the bundles that one broker lists. `bundles`: all of them; else `added` and `removed`.

    `confirmed`: bundles in doubt that it alone lists, requested after the doubt arose. `disputed`: bundles that others
    list as well.
    """
    broker, data = entry.broker or "", entry.data
    added, removed = list(data.get("added", ())), list(data.get("removed", ()))
    if "bundles" in data:
        added, removed = changes_between(state.holdings.observed_at(broker), set(data["bundles"]))
        for name in data["bundles"]:
            seen = state.observed.bundles.get(name)
            if seen is not None and seen.stale and seen.broker == broker:
                _put(state, replace(seen, stale=False))
    for name in removed:
        seen = state.observed.bundles.get(name)
        if seen is not None and seen.broker == broker:
            _put(state, _changed(state, entry, name, None))
    for name in added:
        before = state.observed.bundles.get(name)
        _put(state, _changed(state, entry, name, broker))
        if before is None or before.broker != broker:  # it was placed, which uses a kept destination up; else seen anew
            state.observed.range_blocks.pop(name.rpartition("/")[2], None)
    for name in data.get("confirmed", ()):
        _end_doubt(state, name)
    for name in {*data.get("disputed", ()), *data.get("agreed", ())}:
        seen = state.observed.bundles.get(name)
        if seen is not None:
            _put(state, replace(seen, disputed=name in data.get("disputed", ()), seq=entry.seq))


def _changed(state: ClusterState, entry: Entry, name: str, broker: str | None) -> Observation:
    """The bundle's new observation. Its first one is no move; every later change of the owner is."""
    before = state.observed.bundles.get(name)
    if before is not None and before.broker == broker and not before.stale:
        return before
    moved = before is not None and before.broker != broker
    moved_at_ms = (state.round_at_ms if moved else before.moved_at_ms) if before is not None else 0
    return Observation(Bundle.parse(name), broker, entry.seq, moved_at_ms)


def _put(state: ClusterState, new: Observation) -> None:
    """Replace an observation and update the index; a bundle with an open move goes on counting for its target."""
    name, cluster = str(new.bundle), state.observed
    before, old = cluster.holder(name), cluster.bundles.get(name)
    cluster.bundles[name] = new
    state.holdings.count_observed(new.bundle, before, cluster.holder(name))
    state.holdings.list_observed(name, old.broker if old is not None else None, new.broker)


def apply_observer_ended(state: ClusterState, broker: str) -> None:
    """The session that observed the broker has ended: what it saw stays as it was, marked stale."""
    for name in state.holdings.observed_at(broker):
        state.observed.bundles[name] = replace(state.observed.bundles[name], stale=True)


def apply_ring(state: ClusterState, entry: Entry) -> None:
    """Replace a namespace's ring; bundles outside the new one are forgotten. `boundaries` empty: it was deleted."""
    namespace, boundaries = str(entry.data["namespace"]), tuple(int(b) for b in entry.data["boundaries"])
    if boundaries and not is_ring(boundaries):
        raise InvariantBroken(f"I2: entry {entry.seq}: the ring of {namespace} has boundaries {boundaries}")
    cluster = state.observed
    known = {str(b) for b in bundles_of_ring(namespace, cluster.rings.get(namespace, ()))}
    living = {str(b) for b in bundles_of_ring(namespace, boundaries)}
    if boundaries:
        cluster.rings[namespace] = boundaries
    else:
        cluster.rings.pop(namespace, None)
    for name in known - living:
        before = cluster.holder(name)
        seen = cluster.bundles.pop(name, None)
        if seen is not None:
            state.holdings.count_observed(seen.bundle, before, None)
            state.holdings.list_observed(name, seen.broker, None)
        cluster.blocks.pop(name, None)


def apply_order(state: ClusterState, entry: Entry) -> None:
    """Open an order. Its move counts as done from now on."""
    data, name, cluster = entry.data, entry.bundle or "", state.observed
    if name in cluster.orders:
        raise InvariantBroken(f"entry {entry.seq} orders {name} while order {cluster.orders[name].id} is open")
    order = Order(
        id=str(data["id"]),
        kind=OrderKind(data["kind"]),
        bundle=Bundle.parse(name),
        source=str(data["source"]),
        executor=str(data["executor"]),
        seq=entry.seq,
        target=data.get("target"),
        boundary=data.get("boundary"),
        reason=entry.reason or "",
        decision_id=entry.decision_id,
        command_id=entry.command_id,
    )
    before = cluster.holder(name)
    cluster.orders[name] = order
    state.holdings.count_observed(order.bundle, before, cluster.holder(name))


def apply_order_ended(state: ClusterState, entry: Entry) -> None:
    """Close an order and note what follows from its outcome."""
    data, name, cluster = entry.data, entry.bundle or "", state.observed
    order = cluster.orders.get(name)
    if order is None or order.id != data["id"]:
        raise InvariantBroken(f"entry {entry.seq} ends order {data['id']} of {name}, which is not open")
    before = cluster.holder(name)
    del cluster.orders[name]
    state.holdings.count_observed(order.bundle, before, cluster.holder(name))
    outcome = OrderOutcome(data["outcome"])
    if entry.broker is not None and name in cluster.bundles:  # the owner, as the executor saw it at the end
        _put(state, _changed(state, entry, name, entry.broker))
    _block(state, entry, outcome)
    if data.get("range_blocked"):
        cluster.range_blocks[order.range_text] = name
    elif outcome is OrderOutcome.MOVED:  # the destination was used up, an older one of the same range too
        cluster.range_blocks.pop(order.range_text, None)
    if order.kind is not OrderKind.SPLIT and outcome is not OrderOutcome.REFUSED:
        ended_at_ms = int(data.get("ended_at_ms") or state.round_at_ms)
        for broker in (order.source, order.target):
            if broker is not None:
                cluster.settled_at_ms[broker] = ended_at_ms


def _block(state: ClusterState, entry: Entry, outcome: OrderOutcome) -> None:
    """Keep the bundle from orders while it is in doubt or backs off; any other outcome ends its back-off."""
    blocks, name = state.observed.blocks, entry.bundle or ""
    before = blocks.get(name, Block())
    if outcome in BACKS_OFF:
        blocks[name] = replace(
            before, not_before_ms=int(entry.data.get("not_before_ms") or 0), failures=before.failures + 1
        )
    elif outcome in IN_DOUBT:
        blocks[name] = replace(before, in_doubt_seq=entry.seq)
    else:
        blocks.pop(name, None)


def _end_doubt(state: ClusterState, name: str) -> None:
    block = state.observed.blocks.get(name)
    if block is None:
        return
    if block.failures:
        state.observed.blocks[name] = replace(block, in_doubt_seq=0)
    else:
        del state.observed.blocks[name]


def apply_fact(state: ClusterState, entry: Entry) -> None:
    """Replace a fact, or forget it. A new leader of the cluster has none of the destinations that the old one kept."""
    key, value = str(entry.data["key"]), entry.data.get("value")
    if value is None:
        state.observed.facts.pop(key, None)
    else:
        state.observed.facts[key] = dict(value)
    if key.startswith(POLICIES):
        state.policy_seq = entry.seq  # rounds computed before it are void
    if key == LEADER:
        state.observed.range_blocks.clear()


def apply_adoption(state: ClusterState, entry: Entry) -> None:
    """Note who is in charge. What was there before Ballast's first write stays known until a release is finished."""
    data, old = entry.data, state.observed.adoption
    before, cluster = dict(data.get("before") or {}), str(data.get("cluster") or "")
    if old is not None and (old.phase is not AdoptionPhase.RELEASED or not before):
        before |= old.before
        cluster = cluster or old.cluster
    state.observed.adoption = Adoption(
        phase=AdoptionPhase(data["phase"]),
        before=before,
        seq=entry.seq,
        at_ms=entry.at_ms,
        who=str(data.get("who") or ""),
        why=str(data.get("why") or ""),
        command_id=entry.command_id or "",
        cluster=cluster,
    )
