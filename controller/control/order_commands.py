"""Operators' commands in a cluster that decides ownership itself: they become orders, or say who may send any.

Orders are limited in number, so those for a whole namespace wait here for their turn, and for refusals to pass. What
cannot be sent after all ends with an alarm that names the command. The queue does not survive a restart of the
controller: the operator sends the command again. Drained is a lasting property, as for owned bundles. After
`release` no order is sent until `adopt`.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.control.command_args import Effect, all_but_there, number_of, text_of
from controller.control.context import Context
from controller.control.orders import (
    Refusal,
    Wanted,
    backs_off,
    end_order,
    find_cluster_refusal,
    find_own_refusal,
    find_refusal,
    send_order,
)
from controller.control.watch import QueuedOrder
from controller.domain.decision import DecisionKind, Reason
from controller.domain.entries import Kind
from controller.domain.errors import BadRecord, shown
from controller.domain.events import Command
from controller.domain.facts import MUST_BE_OFF
from controller.domain.ids import Bundle, Session
from controller.domain.observed import (
    END_RELEASE,
    RELEASE,
    AdoptionPhase,
    Observation,
    OrderKind,
    OrderOutcome,
    bundles_of_ring,
)
from controller.domain.ownership import Ownership, State
from controller.domain.state import JOURNAL, METADATA, Broker, is_foreign

_MOST_SETTING_CHARS = 200
_WAIT = frozenset({Reason.BUDGET_SPENT, Reason.IN_FLIGHT, Reason.RANGE_IN_USE})  # until other orders have ended
# Refusals that may pass: a restarted agent or broker is observed anew, a new broker tells its configuration. Before a
# command is accepted its sender hears of them; afterwards they are waited for.
_PASS = frozenset(
    {
        Reason.RANGE_IN_USE, Reason.ANOTHER_BALANCER, Reason.MASS_FAILURE, Reason.NOT_AUTHORISED, Reason.OWNER_UNKNOWN,
        Reason.BROKER_GONE, Reason.SUSPECT_BROKER, Reason.LAGGING,
    }
)  # fmt: skip
MOST_REFUSED_MS = 3_600_000  # for which a queued move is refused: nobody expects it much later
_MOST_NAMED = 20  # bundles in an alarm
_NOT_LISTED = Refusal(Reason.STALE_DECISION, "it was split, or its namespace was deleted")


def _unload_bundle(ctx: Context, command: Command) -> Effect:
    """To the named broker; without one, Pulsar chooses."""
    seen = _seen(ctx, text_of(command, "bundle"))
    wanted = Wanted.move(seen, _target_of(command))
    refusal = find_refusal(ctx, wanted)
    if refusal is not None:
        raise BadRecord("bundle", refusal.text)
    return lambda: send_order(ctx, wanted, "commanded", command_id=command.id)


def _unload_namespace(ctx: Context, command: Command) -> Effect:
    namespace = text_of(command, "namespace")
    ring = ctx.state.observed.rings.get(namespace)
    if ring is None:
        raise BadRecord("namespace", f"{namespace} does not exist, or the agent does not see it")
    target = _target_of(command)
    names = [str(bundle) for bundle in bundles_of_ring(namespace, ring)]
    owned = [one for name in names if (one := ctx.state.observed.bundles.get(name)) and one.broker is not None]
    orders, queued = ctx.state.observed.orders, ctx.watch.queued_orders
    moving = [one for one in owned if one.broker != target or str(one.bundle) in orders]  # one that leaves comes back
    staying = [one for one in owned if one.broker == target and str(one.bundle) not in orders]
    first = next((refusal for one in moving if (refusal := find_refusal(ctx, Wanted.move(one, target)))), None)
    if first is not None and first.reason not in _WAIT:
        raise BadRecord("namespace", first.text)

    def effect() -> None:
        for one in staying:
            queued.pop(str(one.bundle), None)
        for one in moving:
            queued[str(one.bundle)] = QueuedOrder(target, command.id)

    return all_but_there(effect, namespace, target, len(staying), len(moving))


def _split_bundle(ctx: Context, command: Command) -> Effect:
    seen = _seen(ctx, text_of(command, "bundle"))
    if command.args.get("unload"):
        raise BadRecord("unload", "Pulsar's halves stay where they are: split, then unload one of them")
    boundary = number_of(command, "boundary", seen.bundle.middle())
    wanted = Wanted(OrderKind.SPLIT, seen, boundary=boundary)
    refusal = find_refusal(ctx, wanted)
    if refusal is not None:
        raise BadRecord("split", refusal.text)
    return lambda: send_order(ctx, wanted, "commanded", command_id=command.id)


def _refuse(instead: str) -> Callable[[Context, Command], Effect]:
    def handler(ctx: Context, command: Command) -> Effect:
        raise BadRecord(command.kind, f"Pulsar owns its namespaces and topics: use `{instead}`")

    return handler


ORDER_HANDLERS: dict[str, Callable[[Context, Command], Effect]] = {
    "create_namespace": _refuse("pulsar-admin namespaces create"),
    "create_topic": _refuse("pulsar-admin topics create"),
    "unload_topic": _refuse("pulsar-admin topics unload"),
    "unload_bundle": _unload_bundle,
    "unload_namespace": _unload_namespace,
    "split_bundle": _split_bundle,
}


def is_release(ctx: Context, command: Command) -> bool:
    """Whether the command is to release this journal's cluster."""
    return command.kind == RELEASE and not is_foreign(ctx.state.journal_id, command.journal_id)


def _adopt(ctx: Context, command: Command) -> Effect:
    """`before`: setting -> its override now, or null. It is journaled before anybody writes a setting. `cluster`: its
    name; senders of older versions do not tell it."""
    _check_decides_itself(ctx)
    before = command.args.get("before")
    if not isinstance(before, dict) or before.keys() != set(MUST_BE_OFF.values()):
        raise BadRecord("before", f"before names the overrides of {', '.join(MUST_BE_OFF.values())}, or null for each")
    for setting, value in before.items():
        if value is not None and not (isinstance(value, str) and len(value) <= _MOST_SETTING_CHARS):
            raise BadRecord("before", f"the override of {setting} is {shown(value)}, wanted a text or null")
    named = _named_cluster(ctx, command)
    return lambda: _note_phase(ctx, command, AdoptionPhase.ADOPTED, before=before, **named)


def _named_cluster(ctx: Context, command: Command) -> dict[str, str]:
    """The cluster as the entry names it. Raises BadRecord if the journal is another one's."""
    cluster, newest = command.args.get("cluster", ""), ctx.state.observed.adoption
    if not isinstance(cluster, str) or len(cluster) > _MOST_SETTING_CHARS or not cluster.isprintable():
        raise BadRecord("cluster", f"the cluster's name is {shown(cluster)}, wanted a text")
    if newest is not None and newest.is_of_another(cluster):
        raise BadRecord("cluster", f"the journal's Pulsar cluster is {newest.cluster}, not {cluster}: release it first")
    return {"cluster": cluster} if cluster else {}


def _release(ctx: Context, command: Command) -> Effect:
    """No further order is sent; what waits for its turn is dropped. Open orders go on until they end."""
    _check_decides_itself(ctx)

    def effect() -> None:
        adoption = ctx.state.observed.adoption
        if adoption is None or adoption.phase is not AdoptionPhase.RELEASED:
            _note_phase(ctx, command, AdoptionPhase.RELEASING, dropped=len(ctx.watch.queued_orders))
        ctx.watch.queued_orders.clear()

    return effect


def _end_release(ctx: Context, command: Command) -> Effect:
    """The settings are as they were before the adoption. What is open still ends here, whatever becomes of it."""
    adoption = ctx.state.observed.adoption
    if adoption is None or adoption.phase is AdoptionPhase.ADOPTED:
        why = "nobody is releasing it" if adoption is None else f"{adoption.who or 'somebody'} has adopted it since"
        raise BadRecord(END_RELEASE, f"the cluster is not being released: {why}")

    def effect() -> None:
        if adoption.phase is AdoptionPhase.RELEASING:
            _note_phase(ctx, command, AdoptionPhase.RELEASED)
        for order in sorted(ctx.state.observed.orders.values(), key=lambda order: order.seq):
            end_order(ctx, order, OrderOutcome.RELEASED, {})

    return effect


def _note_phase(ctx: Context, command: Command, phase: AdoptionPhase, **more: object) -> None:
    data = {"phase": phase.value, "who": command.who, "why": command.why, **more}
    ctx.emit(Kind.ADOPTION, command_id=command.id, data=data)


def _check_decides_itself(ctx: Context) -> None:
    if ctx.state.authority == JOURNAL:
        raise BadRecord("authority", "these brokers follow this journal; only a Pulsar cluster is adopted or released")


ADOPTION_HANDLERS: dict[str, Callable[[Context, Command], Effect]] = {
    "adopt": _adopt,
    RELEASE: _release,
    END_RELEASE: _end_release,
}


def _seen(ctx: Context, name: str) -> Observation:
    seen = ctx.state.observed.bundles.get(str(Bundle.parse(name)))
    if seen is None:
        raise BadRecord("bundle", f"{name} is listed by no broker: it has no load, was split, or does not exist")
    return seen


def _target_of(command: Command) -> str | None:
    return text_of(command, "to") if command.args.get("to") is not None else None


def send_waiting_orders(ctx: Context) -> None:
    """Send the orders of namespaces that waited for their turn, then those that empty drained brokers."""
    _send_queued(ctx)
    drained = [b for b in ctx.state.live_brokers() if b.drained] if ctx.state.authority == METADATA else []
    if drained and find_cluster_refusal(ctx) is None:
        for broker in drained:
            _empty(ctx, broker)


def _send_queued(ctx: Context) -> None:
    queued, given_up = ctx.watch.queued_orders, dict[tuple[str, Refusal], list[str]]()
    of_cluster = find_cluster_refusal(ctx) if queued else None
    for name, waiting in list(queued.items()):
        seen = ctx.state.observed.bundles.get(name)
        if seen is not None and seen.broker == waiting.target and name not in ctx.state.observed.orders:
            del queued[name]  # it is there, or nobody owns it any more: Pulsar was faster
            continue
        wanted = Wanted.move(seen, waiting.target) if seen is not None else None
        refusal = of_cluster or (find_own_refusal(ctx, wanted) if wanted is not None else _NOT_LISTED)
        if refusal is not None and _waits(ctx, waiting, refusal.reason):
            continue
        del queued[name]
        if refusal is not None:
            given_up.setdefault((waiting.command_id, refusal), []).append(name)
        elif wanted is not None:
            send_order(ctx, wanted, "commanded", command_id=waiting.command_id)
    for (command_id, refusal), names in given_up.items():
        data = {"why": refusal.text, "count": len(names), "not_moved": names[:_MOST_NAMED]}
        ctx.emit(Kind.ALARM, bundle=names[0], reason=refusal.reason.value, command_id=command_id, data=data)


def _waits(ctx: Context, waiting: QueuedOrder, reason: Reason) -> bool:
    """Whether the move goes on waiting although it is refused now."""
    if reason in _PASS:
        waiting.refused_ms = ctx.now_ms if waiting.refused_ms is None else waiting.refused_ms
        return ctx.now_ms - waiting.refused_ms < MOST_REFUSED_MS
    waiting.refused_ms = None
    return reason in _WAIT


def _empty(ctx: Context, broker: Broker) -> None:
    """Order the bundles of a drained broker away, as many as may be in flight."""
    for name in sorted(ctx.state.holdings.observed_at(broker.id)):
        if name in ctx.state.observed.orders or backs_off(ctx, name, ctx.state.round_at_ms):
            continue
        seen = ctx.state.observed.bundles[name]
        record = _as_owned(seen, broker.session)
        choice = ctx.weigh_targets(seen.bundle, broker.session)
        if choice is None:
            continue
        wanted = Wanted.move(seen, choice.session.broker)
        refusal = find_refusal(ctx, wanted)
        if refusal is None:
            cause = ctx.decide_place(record, choice, DecisionKind.TRANSFER, Reason.DRAINED)
            send_order(ctx, wanted, Reason.DRAINED.value, **cause._asdict())
        elif refusal.reason is Reason.BUDGET_SPENT:
            return


def _as_owned(seen: Observation, owner: Session) -> Ownership:
    """An observation as a record of ownership, for the evidence of decisions."""
    return Ownership(seen.bundle, State.OWNED, seen.seq, by=owner)
