"""Expires leases, and the mass-failure breaker that suspends this when too many expire at once.

When a large share of the brokers falls silent within a minute, the fault is more likely in Kafka or here than in all of
them: ending their sessions would reassign every bundle for nothing. The breaker then trips (the state is `frozen`, the
entry of kind `guard`) until brokers return, time passes, or an operator resets it.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.control.sessions import end_session
from controller.domain.entries import Kind
from controller.domain.events import Tick
from controller.domain.facts import is_suspect
from controller.domain.ids import Session
from controller.domain.state import METADATA


def expire_leases(ctx: Context) -> None:
    """End the sessions whose lease has expired, unless the mass-failure breaker has tripped."""
    allowance = ctx.settings.lease_ms + ctx.settings.margin_ms
    silent = sorted(s for s, at in ctx.watch.heard.items() if _read_until(ctx, s) - at > allowance)
    if ctx.state.authority == METADATA:
        for session in silent:  # one agent speaks for all: its silence says nothing about the brokers
            end_session(ctx, session, "lease")
        _check_breaker(ctx, [], _list_suspects(ctx))
        return
    if _check_breaker(ctx, silent, set()):
        return
    for session in silent:
        end_session(ctx, session, "lease")


def note_tick(ctx: Context, tick: Tick) -> None:
    """The controller's own tick came back from the topic of an agent group: what lay before it has been read.

    After a silence of more than a lease nobody of the group could be heard: their leases restart, as they all do when
    no topic could be read.
    """
    watch, groups = ctx.watch, ctx.settings.agent_groups
    if not groups.members or tick.instance != ctx.batch.instance or tick.boot_ms is None:
        return
    before = watch.ticked.get(tick.group)
    if before is None or ctx.read_ms - before > ctx.settings.lease_ms:
        theirs = {s: at for s, at in watch.heard.items() if groups.of(s.broker) == tick.group}
        watch.heard |= {session: max(at, ctx.read_ms) for session, at in theirs.items()}
    watch.ticked[tick.group] = ctx.read_ms
    until_ms = min(tick.boot_ms, ctx.read_ms)  # nobody but its agents can forge it, and only to their own harm
    watch.read_until[tick.group] = max(until_ms, watch.read_until.get(tick.group, 0))


def _read_until(ctx: Context, session: Session) -> int:
    """The time before which everything appended to the topic of the session's heartbeats has been read.

    Without agent groups that is `now_ms`. With groups there are several topics without a common order, so each group is
    judged by the controller's own ticks in its topic.
    """
    groups = ctx.settings.agent_groups
    if not groups.members:
        return ctx.now_ms
    return min(ctx.now_ms, ctx.watch.read_until.get(groups.of(session.broker), 0))


def _list_suspects(ctx: Context) -> set[str]:
    facts = ctx.state.observed.facts
    return {broker.id for broker in ctx.state.live_brokers() if is_suspect(facts, broker.id)}


def _check_breaker(ctx: Context, silent: list[Session], suspects: set[str]) -> bool:
    """Whether the breaker is tripped now; journals every change. `suspects`: brokers that are listed but do not answer.

    It compares the silent brokers with those alive within the window. A broker that has come back, even as a newer
    process, is not silent, and is forgotten: it may leave in good order. A controller that starts on a frozen cluster
    listens for one lease first.
    """
    watch, settings = ctx.watch, ctx.settings
    if ctx.state.frozen and ctx.now_ms <= watch.listening_until_ms:
        return True
    watch.expired = [(at, b) for at, b in watch.expired if ctx.now_ms - at <= settings.guard_window_ms]
    gone = {b for _, b in watch.expired if ctx.state.session_of(b) is None}
    gone |= {s.broker for s in silent if ctx.state.session_of(s.broker) in (None, s)} | suspects
    known = {s.broker for s in ctx.state.sessions} | gone
    suspicious = len(known) >= settings.guard_min_brokers and len(gone) > settings.guard_silent_fraction * len(known)
    by_time = watch.frozen_since_ms is not None and ctx.now_ms - watch.frozen_since_ms > settings.guard_thaw_after_ms
    if by_time or ctx.state.thawing:
        watch.expired.clear()
        suspicious = False
    freeze = suspicious and (bool(silent or suspects) or ctx.state.frozen or ctx.state.authority == METADATA)
    if freeze != ctx.state.frozen:
        watch.frozen_since_ms = ctx.now_ms if freeze else None
        data = {"frozen": freeze, "silent": sorted(gone), "alive": len(known) - len(gone)}
        ctx.emit(Kind.GUARD, reason="mass_failure" if freeze else "thawed", data=data)
    return freeze
