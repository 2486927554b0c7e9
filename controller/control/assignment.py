"""Bundles nobody owns, and brokers that must be emptied.

Orphans (freed by a session's end, an unload or a rejection) are assigned at once and in every mode; a bundle that was
never owned waits for its first lookup. Drained is a standing property: whatever is or becomes owned there moves away.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.control.handover import next_target
from controller.domain.decision import Reason
from controller.domain.events import AssignRequest
from controller.domain.ownership import Ownership, State

EVACUATIONS_IN_FLIGHT = 64  # hand-overs at a time while a broker is emptied: its clients reconnect in waves


def assign_orphans(ctx: Context) -> None:
    """Grant every orphan to the best broker; those without a candidate stay orphans."""
    for name in sorted(ctx.watch.orphans):
        if not grant(ctx, ctx.state.bundles[name], Reason.ORPHANED) and not ctx.candidates(""):
            return


def on_assign_request(ctx: Context, request: AssignRequest) -> None:
    """Somebody looked for a topic of this bundle."""
    record = ctx.bundle(request.bundle)
    if record is None:
        ctx.watch.refuse("assign_request_of_unknown_bundle")
    elif record.state is State.FREE:
        grant(ctx, record, Reason.FIRST_LOOKUP)


def grant(ctx: Context, record: Ownership, reason: Reason) -> bool:
    """FREE -> ASSIGNING, when a broker is eligible."""
    target = next_target(ctx, record)
    if target is None:
        return False
    ctx.move(record, State.ASSIGNING, to=target, burn=True, reason=reason.value)
    return True


def evacuate(ctx: Context) -> None:
    """Move what drained and leaving brokers own to others, a bounded number at a time.

    By transfer, not by unload: the owner serves until the target is ready, so clients see one Kafka hop. Without an
    eligible target the bundle stays: being served by a broker that should be empty beats not being served.
    """
    emptying = {b.session for b in ctx.state.live_brokers() if b.drained or b.leaving}
    if not emptying:
        return
    underway = sum(ctx.state.bundles[name].by in emptying for name in ctx.watch.deadlines)
    room = EVACUATIONS_IN_FLIGHT - underway
    names = [name for name, r in ctx.state.bundles.items() if r.state is State.OWNED and r.by in emptying]
    for name in sorted(names)[: max(room, 0)]:
        record = ctx.state.bundles[name]
        target = next_target(ctx, record, record.by)
        if target is not None:
            reason = Reason.DRAINED.value
            begun_ms = ctx.state.round_at_ms
            ctx.move(
                record, State.TRANSFERRING, by=record.by, to=target, burn=True, reason=reason, moving_at_ms=begun_ms
            )
