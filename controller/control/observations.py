"""Journals what an agent observes of a cluster that decides ownership itself: bundles, rings, facts.

Only changes become entries. Bundles and rings that do not fit are refused: the agent compares what it sees with the
journal at every poll, and rings every few minutes, so nothing is lost by it. Facts that the journal would refuse are
not sent: the agent says so as `denied`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.control.context import Context
from controller.domain.entries import Kind
from controller.domain.errors import BadRecord
from controller.domain.events import BrokerEvent
from controller.domain.facts import find_flaw
from controller.domain.ids import Bundle
from controller.domain.observed import changes_between, has_bundle, is_ring
from controller.domain.state import METADATA

MAX_BOUNDARIES = 65_537


def on_observed(ctx: Context, event: BrokerEvent) -> None:
    """Journal the changes of what a broker lists: `data` has `added` and `removed`; without it `serving` is the list.

    `data.requested_seq`: what the agent had applied of the journal when it sent the request to the broker. It ends the
    doubt about bundles in `data.confirmed`, which this broker alone lists.
    """
    if not _may_observe(ctx, event):
        return
    broker, listed = event.session.broker, ctx.state.holdings.observed_at(event.session.broker)
    data = event.data
    if data:
        added = [name for name in _known_bundles(ctx, data.get("added")) if name not in listed or _is_stale(ctx, name)]
        removed = [name for name in _names_of(data.get("removed")) if name in listed]
    else:
        now = set(_known_bundles(ctx, event.serving))
        added, removed = changes_between(listed, now)
        added = sorted({*added, *(name for name in now & listed if _is_stale(ctx, name))})
    seen = ctx.state.observed.bundles
    disputed = [n for n in _names_of(data.get("disputed")) if n in seen and not seen[n].disputed]
    agreed = [n for n in _names_of(data.get("agreed")) if n in seen and seen[n].disputed]
    changes = {
        "added": added,
        "removed": removed,
        "confirmed": _list_confirmed(ctx, event),
        "disputed": disputed,
        "agreed": agreed,
    }
    found = {name: names for name, names in changes.items() if names}
    if found:
        ctx.emit(Kind.OBSERVED, broker=broker, session=str(event.session), data=found)
        for name in removed:
            ctx.note_observed_move(Bundle.parse(name), broker, None)
        for name in added:
            ctx.note_observed_move(Bundle.parse(name), None, broker)


def on_ring(ctx: Context, event: BrokerEvent) -> None:
    """Journal a namespace's boundaries when they changed; empty boundaries: the namespace was deleted."""
    if not _may_observe(ctx, event):
        return
    namespace, given = str(event.data.get("namespace") or ""), event.data.get("boundaries")
    boundaries = tuple(given) if isinstance(given, list) and all(type(b) is int for b in given) else None
    whole = boundaries == () or (boundaries is not None and len(boundaries) <= MAX_BOUNDARIES and is_ring(boundaries))
    if namespace.count("/") != 1 or boundaries is None or not whole:
        ctx.watch.refuse("ring_invalid")
    elif ctx.state.observed.rings.get(namespace, ()) != boundaries:
        data = {"namespace": namespace, "boundaries": list(boundaries)}
        ctx.emit(Kind.RING, broker=event.session.broker, data=data)


def on_fact(ctx: Context, event: BrokerEvent) -> None:
    """Journal a fact when it changed; value null: it no longer holds."""
    if not _may_observe(ctx, event):
        return
    key, value = event.data.get("key"), event.data.get("value")
    if find_flaw(key, value) is not None:
        ctx.watch.refuse("fact_invalid")
    elif ctx.state.observed.facts.get(str(key)) != value:
        ctx.emit(Kind.FACT, broker=event.session.broker, data={"key": key, "value": value})


def _may_observe(ctx: Context, event: BrokerEvent) -> bool:
    broker = ctx.state.brokers[event.session.broker]
    if broker.authority != METADATA:
        ctx.watch.refuse("observed_from_owning_broker")
    elif broker.session != event.session:
        ctx.watch.refuse("observed_by_replaced_process")
    else:
        return True
    return False


def _known_bundles(ctx: Context, given: Any) -> list[str]:
    """The names that are bundles of a known ring, sorted; others are counted and left out."""
    known = []
    for name in _names_of(given):
        try:
            bundle = Bundle.parse(name)
        except BadRecord:
            ctx.watch.refuse("observed_no_bundle")
            continue
        if has_bundle(ctx.state.observed.rings.get(bundle.namespace, ()), bundle):
            known.append(str(bundle))
        else:
            ctx.watch.refuse("observed_outside_ring")
    return sorted(known)


def _names_of(given: Any) -> Iterable[str]:
    return [name for name in given if isinstance(name, str)] if isinstance(given, Mapping | list) else []


def _is_stale(ctx: Context, name: str) -> bool:
    seen = ctx.state.observed.bundles.get(name)
    return seen is not None and seen.stale


def _list_confirmed(ctx: Context, event: BrokerEvent) -> list[str]:
    """The bundles in doubt that an observation, requested after the doubt arose, found at this broker alone."""
    requested_seq = event.data.get("requested_seq")
    if not isinstance(requested_seq, int) or requested_seq > ctx.state.seq:
        return []
    blocks, found = ctx.state.observed.blocks, []
    for name in _names_of(event.data.get("confirmed")):
        block = blocks.get(name)
        if block is not None and 0 < block.in_doubt_seq <= requested_seq:
            found.append(name)
    return found
