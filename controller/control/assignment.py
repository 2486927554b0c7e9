"""Bundles nobody owns, and brokers that must be emptied.

Orphans (freed by a session's end, an unload or a rejection) are assigned first, at once and in every mode; a bundle
that was never owned waits for its first lookup. A batch grants a bounded number of each, so that ten thousand lookups
delay no failover. Drained is a standing property: whatever is or becomes owned there moves away.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import takewhile

from controller.control.context import Context
from controller.control.decided import Choice
from controller.control.handover import next_choice
from controller.domain.decision import DecisionKind, Reason
from controller.domain.entries import Kind
from controller.domain.events import AssignRequest
from controller.domain.ids import Session
from controller.domain.ownership import Ownership, State

EVACUATIONS_IN_FLIGHT = 32  # at a time while a broker is emptied: all of a wave stop together, some 5 ms a bundle
RESCUES_PER_BATCH = 5_000  # a fifth of a second of this step; what is left waits for the next batch
FIRST_GRANTS_IN_FLIGHT = 500  # of bundles never owned; brokers take a rescue only after what they were granted before
FIRST_GRANTS_BESIDE_RESCUES = 100  # in a batch that rescues: its entries should reach the brokers soon


def assign_orphans(ctx: Context) -> int:
    """Grant orphans to the best brokers, the heaviest first; those without a candidate stay orphans. Returns how many
    were granted."""
    room, loads = RESCUES_PER_BATCH, ctx.loads
    weights = {name: -loads.weight(name) for name in ctx.watch.orphans} if loads is not None else {}
    for name in sorted(ctx.watch.orphans, key=lambda name: (weights.get(name, 0.0), name)):
        room -= grant(ctx, ctx.state.bundles[name], Reason.ORPHANED)
        if room <= 0 or not ctx.placement:
            break
    return RESCUES_PER_BATCH - room


def on_assign_request(ctx: Context, request: AssignRequest) -> None:
    """Somebody looked for a topic of this bundle."""
    record = ctx.bundle(request.bundle)
    if record is None:
        ctx.watch.refuse("assign_request_of_unknown_bundle")
    elif record.state is State.FREE:
        ctx.watch.lookups.setdefault(str(record.bundle))


def answer_lookups(ctx: Context, rescued: int) -> None:
    """Grant what was looked up, oldest first, as far as grants in flight leave room; few in a batch that rescued."""
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
                continue  # every broker has refused it lately
            room -= 1
        del waiting[name]


def grant(ctx: Context, record: Ownership, reason: Reason) -> bool:
    """FREE -> ASSIGNING, when a broker is eligible."""
    choice = next_choice(ctx, record)
    if choice is None:
        _tell_isolation(ctx, record)
        return False
    ctx.watch.alarmed.pop(record.bundle.namespace, None)
    cause = ctx.decide_place(record, choice, DecisionKind.ASSIGN, reason)
    ctx.move(record, State.ASSIGNING, to=choice.session, burn=True, reason=reason.value, **cause._asdict())
    return True


def _tell_isolation(ctx: Context, record: Ownership) -> None:
    """Complain once that the namespace's isolation policy leaves its bundles no broker, although others live."""
    limits, namespace = ctx.placement.rules, record.bundle.namespace
    if limits is None or not ctx.placement or limits.allowed(namespace) or namespace in ctx.watch.alarmed:
        return
    ctx.watch.alarmed[namespace] = ctx.state.seq
    data = {"namespace": namespace, "policy": limits.policy_name(namespace)}
    ctx.emit(Kind.ALARM, bundle=str(record.bundle), epoch=record.epoch, reason=Reason.ISOLATION.value, data=data)


def evacuate(ctx: Context) -> None:
    """Move what drained and leaving brokers own to others, a bounded number at a time, newest guests first.

    By transfer, not by unload: the owner serves until the target is ready, so clients see one Kafka hop. Without an
    eligible target the bundle stays: being served by a broker that should be empty beats not being served.
    """
    emptying = {b.session for b in ctx.state.live_brokers() if b.drained or b.leaving}
    if not emptying:
        return
    room = EVACUATIONS_IN_FLIGHT - sum(ctx.state.bundles[name].by in emptying for name in ctx.watch.deadlines)
    named = (ctx.state.bundles[name] for session in emptying for name in ctx.state.holdings.named(session))
    waiting = [(-r.seq, r.bundle, r) for r in named if r.state is State.OWNED] if room > 0 else []
    if not waiting:
        return
    heapq.heapify(waiting)
    shelters = _shelters(ctx)
    stuck: set[tuple[str, Session | None]] = set()  # nobody may take anything of this namespace from this session
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
            _tell_isolation(ctx, record)


def send_on(ctx: Context, record: Ownership, choice: Choice, reason: Reason) -> None:
    """OWNED -> TRANSFERRING by the step's own decision; no round moves it on within its grace period (I8)."""
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
    """Who may be granted bundles, the latest start first, and how many each should hold when all hold alike."""

    started: list[tuple[int, str]]
    fair_share: int


def _shelters(ctx: Context) -> Shelters:
    live = ctx.state.live_brokers()
    started = sorted(((b.seq, b.id) for b in live if b.id in ctx.placement), reverse=True)
    held = sum(ctx.state.holdings.total(b.id) for b in live)
    return Shelters(started, -(-held // max(1, len(started))))


def _shelter(ctx: Context, record: Ownership, shelters: Shelters) -> Choice | None:
    """A broker that started after the bundle came to where it is, and holds less than its fair share.

    In a rolling restart these are the brokers that have their restart behind them (decision 5). A bundle that moved
    within its grace period goes to one of them whatever they hold, so that it is not moved a third time; of the rest
    no broker that happens to be the youngest gets everything. Nor does one that is overloaded.
    """
    grace_ends_ms = record.moved_at_ms + ctx.settings.grace_period_ms
    moved_lately = record.moved_at_ms > 0 and ctx.state.round_at_ms < grace_ends_ms
    later = (broker for _, broker in takewhile(lambda start: start[0] > record.seq, shelters.started))
    among = [b for b in later if moved_lately or ctx.state.holdings.total(b) < shelters.fair_share]
    loads = ctx.loads
    among = [b for b in among if loads is None or not loads.standing(b).full]
    return next_choice(ctx, record, record.by, among=among) if among else None
