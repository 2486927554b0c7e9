"""Bundles nobody owns, and brokers that must be emptied.

Orphans (freed by a session's end, an unload or a rejection) are assigned first, at once and in every mode; a bundle
that was never owned waits for its first lookup. A batch grants a bounded number of each, so that ten thousand lookups
delay no failover. Drained is a standing property: whatever is or becomes owned there moves away.
"""

from __future__ import annotations

import heapq

from controller.control.context import Context
from controller.control.handover import next_target
from controller.domain.decision import Reason
from controller.domain.events import AssignRequest
from controller.domain.ownership import Ownership, State

EVACUATIONS_IN_FLIGHT = 64  # hand-overs at a time while a broker is emptied: its clients reconnect in waves
RESCUES_PER_BATCH = 5_000  # a fifth of a second of this step; what is left waits for the next batch
FIRST_GRANTS_IN_FLIGHT = 1_000  # of bundles never owned: as fast as brokers take them, and never in a rescue's way


def assign_orphans(ctx: Context) -> None:
    """Grant orphans to the best brokers; those without a candidate stay orphans."""
    room = RESCUES_PER_BATCH
    for name in sorted(ctx.watch.orphans):
        room -= grant(ctx, ctx.state.bundles[name], Reason.ORPHANED)
        if room <= 0 or not ctx.placement:
            return


def on_assign_request(ctx: Context, request: AssignRequest) -> None:
    """Somebody looked for a topic of this bundle."""
    record = ctx.bundle(request.bundle)
    if record is None:
        ctx.watch.refuse("assign_request_of_unknown_bundle")
    elif record.state is State.FREE:
        ctx.watch.lookups.setdefault(str(record.bundle))


def answer_lookups(ctx: Context) -> None:
    """Grant what was looked up, oldest first, as far as grants in flight leave room."""
    waiting = ctx.watch.lookups
    if not waiting:
        return
    room = FIRST_GRANTS_IN_FLIGHT - sum(
        ctx.state.bundles[name].state is State.ASSIGNING for name in ctx.watch.deadlines
    )
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
    target = next_target(ctx, record)
    if target is None:
        return False
    ctx.move(record, State.ASSIGNING, to=target, burn=True, reason=reason.value)
    return True


def evacuate(ctx: Context) -> None:
    """Move what drained and leaving brokers own to others, a bounded number at a time.

    By transfer, not by unload: the owner serves until the target is ready, so clients see one Kafka hop. A bundle that
    came here when its broker was emptied goes back to that broker if it can (decision 4): in a rolling restart no
    bundle moves more than twice. Without an eligible target the bundle stays: being served by a broker that should be
    empty beats not being served.
    """
    brokers, sessions = ctx.state.brokers.values(), ctx.state.sessions
    emptying = {b.session for b in brokers if (b.drained or b.leaving) and b.session in sessions}
    if not emptying:
        return
    underway = sum(ctx.state.bundles[name].by in emptying for name in ctx.watch.deadlines)
    named = (name for session in emptying for name in ctx.state.holdings.named(session))
    owned = (name for name in named if ctx.state.bundles[name].state is State.OWNED)
    for name in heapq.nsmallest(EVACUATIONS_IN_FLIGHT - underway, owned):
        record = ctx.state.bundles[name]
        target = next_target(ctx, record, record.by, home=record.home)
        if target is not None and record.by is not None:
            ctx.move(
                record,
                State.TRANSFERRING,
                by=record.by,
                to=target,
                burn=True,
                reason=Reason.DRAINED.value,
                moving_at_ms=ctx.state.round_at_ms,
                emptied=record.by.broker,
            )
