"""Reconciles agents' inventories with the journal (level-triggered).

An inventory older than the entry in question proves nothing, and one with an applied seq beyond the journal is forged.
A bundle missing from a newer inventory may still be served by a process that failed to list it, so it is released
first, never freed outright.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.domain.events import BrokerEvent
from controller.domain.ownership import State


def on_inventory(ctx: Context, event: BrokerEvent) -> None:
    """Order the session to release, to nobody, the bundles that it owns but does not serve."""
    session = event.session
    if event.applied_seq > ctx.state.seq:
        ctx.watch.refuse("applied_seq_beyond_journal")
        return
    ctx.watch.applied[session] = max(event.applied_seq, ctx.watch.applied.get(session, 0))
    unlisted = [ctx.state.bundles[name] for name in ctx.state.holdings.bundles_naming(session) - event.serving.keys()]
    missing = [r for r in unlisted if r.by == session and r.state is State.OWNED and r.seq <= event.applied_seq]
    for record in sorted(missing, key=lambda r: r.bundle):
        ctx.move(record, State.RELEASING, by=session, burn=True, reason="missing_from_inventory")
