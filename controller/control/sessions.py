"""Registrations, lease ends and the mass-failure guard.

A session counts as heard from the moment its heartbeat is read; it ends when lease + margin passed since, or when it
says goodbye, or when its own process registers the next one (which proves that it dropped everything). An older
incarnation is never ended by a newer one: it may still serve, so it ends by its own lease.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.control.handover import on_session_end
from controller.control.strays import is_stray
from controller.domain.entries import Kind
from controller.domain.events import Heartbeat
from controller.domain.ids import Session

FURTHEST_STEP = 1_000  # of the incarnation beyond what is known: processes take the next one
FURTHEST_SESSION = 1_000_000  # of the session number: a process without Kafka begins one a lease, 69 days of 6 s ones


def on_heartbeat(ctx: Context, beat: Heartbeat) -> None:
    """Renew the session, or register it when it is the next one of its broker."""
    session = beat.session
    if is_stray(ctx, beat):
        return
    if session not in ctx.state.sessions:
        if not _may_register(ctx, session):
            ctx.watch.refuse("heartbeat_of_unknown_session")
            return
        ctx.emit(Kind.REGISTERED, broker=session.broker, session=str(session), data={"info": dict(beat.info)})
    ctx.watch.heard[session] = ctx.read_ms
    applied_seq = min(beat.applied_seq, ctx.state.seq)  # nobody has applied what the journal does not have
    ctx.watch.applied[session] = max(applied_seq, ctx.watch.applied.get(session, 0))


def _may_register(ctx: Context, session: Session) -> bool:
    """The first nonce journaled for an incarnation wins; ends the predecessor of the same process."""
    old = ctx.state.brokers.get(session.broker)
    known = old.session if old is not None else Session(session.broker, 0, "", 0)
    if session.incarnation - known.incarnation > FURTHEST_STEP or session.number - known.number > FURTHEST_SESSION:
        return False
    if old is None or session.incarnation > known.incarnation:
        return True
    if session.process != known.process or session.number <= known.number:
        return False
    if old.session in ctx.state.sessions:
        end_session(ctx, old.session, "superseded")
    return True


def end_session(ctx: Context, session: Session, reason: str) -> None:
    """Journal the end and let go of everything the session was a party to."""
    if session not in ctx.state.sessions:
        return
    ctx.emit(Kind.SESSION_ENDED, broker=session.broker, session=str(session), reason=reason)
    ctx.watch.heard.pop(session, None)
    ctx.watch.applied.pop(session, None)
    if reason == "lease":
        ctx.watch.lapsed.append((ctx.now_ms, session.broker))
    for name in sorted(ctx.state.holdings.named(session)):
        on_session_end(ctx, ctx.state.bundles[name], session)


def judge_leases(ctx: Context) -> None:
    """End the leases that ran out, unless so many did that the fault is more likely ours (the guard)."""
    allowance = ctx.settings.lease_ms + ctx.settings.margin_ms
    silent = sorted(s for s, at in ctx.watch.heard.items() if ctx.now_ms - at > allowance)
    if _guard(ctx, silent):
        return
    for session in silent:
        end_session(ctx, session, "lease")


def _guard(ctx: Context, silent: list[Session]) -> bool:
    """Whether lease ends are suspended. Looks at the share of silent brokers among those alive a minute ago; one that
    has come back, be it as a newer process, is not silent. A controller that starts on a frozen cluster listens for a
    lease first."""
    watch, settings = ctx.watch, ctx.settings
    if ctx.state.frozen and ctx.now_ms <= watch.listening_until_ms:
        return True
    watch.lapsed = [(at, b) for at, b in watch.lapsed if ctx.now_ms - at <= settings.guard_window_ms]
    gone = {b for _, b in watch.lapsed if ctx.state.session_of(b) is None}
    gone |= {s.broker for s in silent if ctx.state.session_of(s.broker) in (None, s)}
    known = {s.broker for s in ctx.state.sessions} | gone
    suspicious = len(known) >= settings.guard_min_brokers and len(gone) > settings.guard_silent_fraction * len(known)
    by_time = watch.frozen_since_ms is not None and ctx.now_ms - watch.frozen_since_ms > settings.guard_thaw_after_ms
    if by_time or ctx.state.thawing:
        watch.lapsed.clear()
        suspicious = False
    freeze = suspicious and (bool(silent) or ctx.state.frozen)
    if freeze != ctx.state.frozen:
        watch.frozen_since_ms = ctx.now_ms if freeze else None
        data = {"frozen": freeze, "silent": sorted(gone), "alive": len(known) - len(gone)}
        ctx.emit(Kind.GUARD, reason="mass_failure" if freeze else "thawed", data=data)
    return freeze
