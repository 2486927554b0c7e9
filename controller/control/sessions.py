"""Sessions of brokers: registration, renewal and end.

A heartbeat counts from the moment it is read. A session ends when its lease expires (`lease_expiry`), when it
deregisters, or when its own process registers the next one, which proves that everything was dropped. A newer
incarnation never ends an older one: that may still serve, so it ends by its own lease.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.control.handover import on_session_end
from controller.control.orders import end_orders_of
from controller.control.strays import MOST_ALARMS, has_read_no_journal, is_stray
from controller.domain.entries import Kind
from controller.domain.events import UNLISTED, BrokerEvent, Heartbeat
from controller.domain.ids import Session
from controller.domain.state import JOURNAL, authority_of

OTHER_AUTHORITY = "other_authority"  # the reason of an alarm
FURTHEST_STEP = 1_000  # of the incarnation beyond the known one, although a process takes the next one
FURTHEST_SESSION = 1_000_000  # of the number: a process without Kafka starts one session per lease, 69 days at 6 s


def on_heartbeat(ctx: Context, beat: Heartbeat) -> None:
    """Renew the session, or register it if it is the next one of its broker."""
    session = beat.session
    if is_stray(ctx, beat):
        return
    if session not in ctx.state.sessions:
        if has_read_no_journal(ctx, beat) or _has_other_authority(ctx, beat):
            return
        if not _may_register(ctx, session):
            ctx.watch.refuse("heartbeat_of_unknown_session")
            return
        ctx.emit(Kind.REGISTERED, broker=session.broker, session=str(session), data={"info": dict(beat.info)})
        ctx.watch.expired = [(at, broker) for at, broker in ctx.watch.expired if broker != session.broker]
    ctx.watch.heard[session] = ctx.read_ms
    applied_seq = min(beat.applied_seq, ctx.state.seq)  # nobody can have applied more than the journal has
    ctx.watch.applied[session] = max(applied_seq, ctx.watch.applied.get(session, 0))


def _has_other_authority(ctx: Context, beat: Heartbeat) -> bool:
    """Whether ownership of the broker's bundles is decided elsewhere than that of the cluster's; raises an alarm once.

    A cluster has one authority: two would each move the other's bundles.
    """
    ours, theirs = ctx.state.authority, authority_of(beat.info)
    if ours is None or ours == theirs:
        return False
    ctx.watch.refuse("other_authority")
    broker = beat.session.broker
    if (OTHER_AUTHORITY, broker) not in ctx.watch.strays and len(ctx.watch.strays) < MOST_ALARMS:
        ctx.watch.strays.add((OTHER_AUTHORITY, broker))
        ctx.emit(Kind.ALARM, reason=OTHER_AUTHORITY, broker=broker, data={"cluster": ours, "broker": theirs})
    return True


def _may_register(ctx: Context, session: Session) -> bool:
    """Whether the session may register; ends its predecessor of the same process. The first nonce journaled wins."""
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


def on_goodbye(ctx: Context, event: BrokerEvent) -> None:
    """The agent ends a session. Brokers that their cluster lists no more count for the mass-failure breaker; sessions
    that end because their agent leaves do not."""
    end_session(ctx, event.session, "goodbye")
    if event.reason == UNLISTED:
        ctx.watch.expired.append((ctx.now_ms, event.session.broker))


def end_session(ctx: Context, session: Session, reason: str) -> None:
    """Journal the end and release every bundle whose record names the session."""
    if session not in ctx.state.sessions:
        return
    ctx.emit(Kind.SESSION_ENDED, broker=session.broker, session=str(session), reason=reason)
    ctx.watch.heard.pop(session, None)
    ctx.watch.applied.pop(session, None)
    if reason == "lease" and ctx.state.authority == JOURNAL:
        ctx.watch.expired.append((ctx.now_ms, session.broker))
    for name in sorted(ctx.state.holdings.bundles_naming(session)):
        on_session_end(ctx, ctx.state.bundles[name], session)
    end_orders_of(ctx, session)
