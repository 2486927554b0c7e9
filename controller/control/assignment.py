"""Assigns bundles without an owner, and empties drained and leaving brokers.

Orphans (freed by a session's end, an unload or a rejection) are assigned first, at once and in every mode; a bundle
that was never owned waits for its first lookup. A batch grants a bounded number of each, so that ten thousand lookups
delay no failover. Drained is a lasting property: every bundle that is or becomes owned there moves away.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import takewhile

from controller.control.context import Context
from controller.control.handover import next_choice
from controller.control.step_decisions import Choice
from controller.domain.decision import DecisionKind, Reason
from controller.domain.entries import Kind
from controller.domain.events import AssignRequest
from controller.domain.ids import Session
from controller.domain.ownership import Ownership, State

EVACUATIONS_IN_FLIGHT = 32  # while a broker is emptied: those of a wave pause together, some 5 ms a bundle
RESCUES_PER_BATCH = 5_000  # a fifth of a second of this step; the rest waits for the next batch
FIRST_GRANTS_IN_FLIGHT = 500  # of bundles never owned; brokers serve a rescued bundle after earlier grants
FIRST_GRANTS_BESIDE_RESCUES = 100  # in a batch that assigns orphans, whose entries should reach brokers soon


def assign_orphans(ctx: Context) -> int:
    """Grant orphans to the best brokers, the heaviest first; returns how many. Those without a candidate stay
    orphans."""
    room, loads = RESCUES_PER_BATCH, ctx.loads
    weights = {name: -loads.weight(name) for name in ctx.watch.orphans} if loads is not None else {}
    for name in sorted(ctx.watch.orphans, key=lambda name: (weights.get(name, 0.0), name)):
        room -= grant(ctx, ctx.state.bundles[name], Reason.ORPHANED)
        if room <= 0 or not ctx.placement:
            break
    return RESCUES_PER_BATCH - room


def on_assign_request(ctx: Context, request: AssignRequest) -> None:
    """A client looked up a topic of this bundle."""
    record = ctx.bundle(request.bundle)
    if record is None:
        ctx.watch.refuse("assign_request_of_unknown_bundle")
    elif record.state is State.FREE:
        ctx.watch.lookups.setdefault(str(record.bundle))


def answer_lookups(ctx: Context, rescued: int) -> None:
    """Grant bundles that were looked up, oldest first, within the limit on grants in flight; fewer in a batch that
    assigned orphans (`rescued`: how many)."""
    waiting = ctx.watch.lookups
    if not waiting:
        return
    room = FIRST_GRANTS_IN_FLIGHT - sum(
        ctx.state.bundles[name].state is State.ASSIGNING for name in ctx.watch.deadlines
    )
    room = min(room, FIRST_GRANTS_BESIDE_RESCUES) if rescued else room
    for name in list(waiting):
        record = ctx.state.bundles[name]
        if record.state is State.FREE:
            if room <= 0 or not ctx.placement:
                return
            if not grant(ctx, record, Reason.FIRST_LOOKUP):
                continue  # every broker has refused it recently
            room -= 1
        del waiting[name]


def grant(ctx: Context, record: Ownership, reason: Reason) -> bool:
    """FREE -> ASSIGNING, if a broker is eligible; returns whether."""
    choice = next_choice(ctx, record)
    if choice is None:
        _raise_isolation_alarm(ctx, record)
        return False
    ctx.watch.alarmed.pop(record.bundle.namespace, None)
    cause = ctx.decide_place(record, choice, DecisionKind.ASSIGN, reason)
    ctx.move(record, State.ASSIGNING, to=choice.session, burn=True, reason=reason.value, **cause._asdict())
    return True


def _raise_isolation_alarm(ctx: Context, record: Ownership) -> None:
    """Raise an alarm once when the namespace's isolation policy allows no broker although others are alive."""
    limits, namespace = ctx.placement.rules, record.bundle.namespace
    if limits is None or not ctx.placement or limits.allowed(namespace) or namespace in ctx.watch.alarmed:
        return
    ctx.watch.alarmed[namespace] = ctx.state.seq
    data = {"namespace": namespace, "policy": limits.policy_name(namespace)}
    ctx.emit(Kind.ALARM, bundle=str(record.bundle), epoch=record.epoch, reason=Reason.ISOLATION.value, data=data)


def evacuate(ctx: Context) -> None:
    """Move the bundles of drained and leaving brokers to others, a bounded number at a time, the newest first.

    By transfer rather than unload: the owner serves until the target is ready, so clients see a pause of one Kafka hop.
    Without an eligible target the bundle stays, because it is better served there than not at all.
    """
    emptying = {b.session for b in ctx.state.live_brokers() if b.drained or b.leaving}
    if not emptying:
        return
    room = EVACUATIONS_IN_FLIGHT - sum(ctx.state.bundles[name].by in emptying for name in ctx.watch.deadlines)
    named = (ctx.state.bundles[name] for session in emptying for name in ctx.state.holdings.bundles_naming(session))
    waiting = [(-r.seq, r.bundle, r) for r in named if r.state is State.OWNED] if room > 0 else []
    if not waiting:
        return
    heapq.heapify(waiting)
    shelters = _shelters(ctx)
    stuck: set[tuple[str, Session | None]] = set()  # no broker may take bundles of this namespace from this session
    while waiting and room > 0:
        record = heapq.heappop(waiting)[-1]
        place = record.bundle.namespace, record.by
        if place in stuck:
            continue
        choice = _shelter(ctx, record, shelters) or next_choice(ctx, record, record.by)
        if choice is not None:
            room -= 1
            ctx.watch.alarmed.pop(record.bundle.namespace, None)
            send_on(ctx, record, choice, Reason.DRAINED)
        elif ctx.choose_target(record.bundle, record.by) is None:
            stuck.add(place)
            _raise_isolation_alarm(ctx, record)


def send_on(ctx: Context, record: Ownership, choice: Choice, reason: Reason) -> None:
    """OWNED -> TRANSFERRING by the step's own decision; no round moves it again within its grace period (I8)."""
    cause = ctx.decide_place(record, choice, DecisionKind.TRANSFER, reason)
    ctx.move(
        record,
        State.TRANSFERRING,
        by=record.by,
        to=choice.session,
        burn=True,
        moving_at_ms=ctx.state.round_at_ms,
        reason=reason.value,
        **cause._asdict(),
    )


@dataclass(frozen=True, slots=True)
class Shelters:
    """The brokers that may be granted bundles, the latest start first, and how many each holds in an even spread."""

    started: list[tuple[int, str]]
    fair_share: int


def _shelters(ctx: Context) -> Shelters:
    live = ctx.state.live_brokers()
    started = sorted(((b.seq, b.id) for b in live if b.id in ctx.placement), reverse=True)
    held = sum(ctx.state.holdings.total(b.id) for b in live)
    return Shelters(started, -(-held // max(1, len(started))))


def _shelter(ctx: Context, record: Ownership, shelters: Shelters) -> Choice | None:
    """A broker that started after the bundle came to its owner, and holds less than its fair share; None without one.

    In a rolling restart these are the brokers that have been restarted already (decision 5). A bundle that moved within
    its grace period goes to one of them however many it holds, so that it is not moved a third time. For other bundles
    the fair share prevents that the youngest broker gets everything. Overloaded brokers are excluded.
    """
    grace_ends_ms = record.moved_at_ms + ctx.settings.grace_period_ms
    moved_lately = record.moved_at_ms > 0 and ctx.state.round_at_ms < grace_ends_ms
    later = (broker for _, broker in takewhile(lambda start: start[0] > record.seq, shelters.started))
    among = [b for b in later if moved_lately or ctx.state.holdings.total(b) < shelters.fair_share]
    loads = ctx.loads
    among = [b for b in among if loads is None or not loads.standing(b).full]
    return next_choice(ctx, record, record.by, among=among) if among else None
