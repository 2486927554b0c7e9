"""Orders to brokers that decide ownership themselves: whether one may be sent, its answer, its deadline.

An order is opened by `order` and closed by exactly one `order_ended` entry. The agent named as its executor sends at
most one unload that reaches the owner. An order that ends in doubt blocks its bundle until the bundle was observed
again (docs/pulsar.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from controller.control.context import Context
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.errors import few_text
from controller.domain.events import BrokerEvent
from controller.domain.facts import DENIED, find_other_balancer, is_suspect
from controller.domain.ids import Session
from controller.domain.observed import BACKS_OFF, Observation, Order, OrderKind, OrderOutcome, has_bundle
from controller.domain.state import LIVE
from controller.domain.strict_json import is_whole

MOST_BACK_OFF = 6  # doublings
MAX_DETAIL_CHARS = 500
_BY_EXECUTOR = frozenset(OrderOutcome) - {OrderOutcome.EXPIRED, OrderOutcome.EXECUTOR_GONE, OrderOutcome.RELEASED}


class Refusal(NamedTuple):
    """Why an order is not given."""

    reason: Reason
    text: str


class Wanted(NamedTuple):
    """An order that a round or an operator asks for."""

    kind: OrderKind
    seen: Observation
    target: str | None = None
    boundary: int | None = None

    @classmethod
    def move(cls, seen: Observation, target: str | None) -> Wanted:
        """A move to the target; without one, Pulsar chooses."""
        return cls(OrderKind.UNLOAD if target is None else OrderKind.MOVE, seen, target)

    @property
    def name(self) -> str:
        """The bundle's name."""
        return str(self.seen.bundle)


def find_refusal(ctx: Context, wanted: Wanted, at_once: int = 1) -> Refusal | None:
    """Why the order cannot be given now, or None. `at_once`: how many orders it is one of, all or none of them."""
    return find_cluster_refusal(ctx) or find_own_refusal(ctx, wanted, at_once)


def find_own_refusal(ctx: Context, wanted: Wanted, at_once: int = 1) -> Refusal | None:
    """As `find_refusal`, where nothing forbids all orders."""
    return _bundle_refusal(ctx, wanted) or _target_refusal(ctx, wanted) or _quota_refusal(ctx, wanted, at_once)


def find_cluster_refusal(ctx: Context) -> Refusal | None:
    """What forbids all orders: a release, mode, the mass-failure breaker, another balancer, missing rights."""
    state = ctx.state
    if state.observed.released or ctx.release_follows:
        return Refusal(Reason.RELEASED, _describe_release(ctx))
    if state.mode != LIVE:
        return Refusal(Reason.SHADOW_MODE, f"mode is {state.mode}: `ballast mode live` lets Ballast send orders")
    denied = state.observed.facts.get(DENIED)
    if denied is not None:  # before the breaker: who is refused everywhere would hear of silent brokers instead
        return Refusal(Reason.NOT_AUTHORISED, f"the cluster lets Ballast send no orders: {denied.get('why')}")
    if state.frozen:
        return Refusal(Reason.MASS_FAILURE, "many brokers are silent: orders wait until they are back")
    problem = ctx.watch.placement.find_problem(state, ctx.settings.placement)
    if problem is not None:
        return Refusal(Reason.ISOLATION, problem)
    answering = [b.id for b in state.live_brokers() if not is_suspect(state.observed.facts, b.id)]
    other = find_other_balancer(state.observed.facts, answering)
    if other is not None:
        return Refusal(Reason.ANOTHER_BALANCER, f"another balancer may act: {other}")
    return None


def _describe_release(ctx: Context) -> str:
    newest = ctx.state.observed.adoption
    if newest is None or not ctx.state.observed.released:
        return "a release of the cluster was sent right after"
    who = f" by {newest.who}" if newest.who else ""
    again = "`ballast pulsar adopt --apply` lets Ballast send orders again"
    return f"the cluster was released{who}, to balance itself: {again}"


def _bundle_refusal(ctx: Context, wanted: Wanted) -> Refusal | None:
    cluster, seen, name = ctx.state.observed, wanted.seen, wanted.name
    if name in cluster.orders:
        return Refusal(Reason.IN_FLIGHT, f"order {cluster.orders[name].id} about {name} is open")
    if seen.broker is None or seen.stale or seen.disputed:
        why = "is claimed by several brokers" if seen.disputed else "has no known owner"
        return Refusal(Reason.OWNER_UNKNOWN, f"{name} {why}")
    block = cluster.blocks.get(name)
    if block is not None and block.in_doubt_seq:
        return Refusal(Reason.OWNER_UNKNOWN, f"the last order about {name} ended in doubt; its owner is being checked")
    if ctx.state.session_of(seen.broker) is None:
        return Refusal(Reason.BROKER_GONE, f"{seen.broker} is gone")
    if is_suspect(cluster.facts, seen.broker):
        return Refusal(Reason.SUSPECT_BROKER, f"{seen.broker} does not answer")
    if not has_bundle(cluster.rings.get(seen.bundle.namespace, ()), seen.bundle):
        return Refusal(Reason.STALE_DECISION, f"{name} is not in its namespace's ring")
    if wanted.kind is OrderKind.SPLIT:
        return _split_refusal(ctx, wanted)
    return _range_refusal(ctx, wanted)


def _split_refusal(ctx: Context, wanted: Wanted) -> Refusal | None:
    bundle, limit = wanted.seen.bundle, ctx.settings.split.namespace_maximum_bundles
    if wanted.boundary is None or not bundle.lower < wanted.boundary < bundle.upper:
        return Refusal(Reason.UNSPLITTABLE, f"boundary {wanted.boundary} is not strictly inside {bundle}")
    if ctx.state.in_namespace(bundle.namespace) >= limit:
        return Refusal(Reason.BUNDLE_LIMIT, f"{bundle.namespace} has its maximum of {limit} bundles")
    return None


def _range_refusal(ctx: Context, wanted: Wanted) -> Refusal | None:
    """The modular load manager keeps destinations by range text alone, so each text has one open order at a time.

    An unload without a target writes no destination over a kept one, not even over its own bundle's: that would decide
    where the bundle goes, and nobody would have checked it.
    """
    cluster, text = ctx.state.observed, wanted.name.rpartition("/")[2]
    if not ctx.state.modular:
        return None
    kept = f"Pulsar may still keep a destination for range {text}, from an order that failed"
    if cluster.is_range_kept_by_another(wanted.name):
        return Refusal(Reason.RANGE_IN_USE, kept)
    if wanted.kind is OrderKind.UNLOAD and text in cluster.range_blocks:
        return Refusal(Reason.RANGE_IN_USE, f"{kept}: name a target (--to), which takes its place")
    if text in cluster.ranges_in_use(ctx.state.living):
        return Refusal(
            Reason.RANGE_IN_USE, f"an order about range {text} of another namespace is open, or ended in doubt"
        )
    return None


def _target_refusal(ctx: Context, wanted: Wanted) -> Refusal | None:
    target = wanted.target
    if target is None:
        return None
    broker = ctx.state.brokers.get(target)
    if broker is None:
        return Refusal(Reason.BROKER_GONE, _describe_unknown(ctx, target))
    if ctx.state.session_of(target) is None:
        return Refusal(Reason.BROKER_GONE, f"{target} is gone")
    if target == wanted.seen.broker:
        return Refusal(Reason.STALE_DECISION, f"{target} owns {wanted.name} already")
    if is_suspect(ctx.state.observed.facts, target):
        return Refusal(Reason.SUSPECT_BROKER, f"{target} does not answer")
    if broker.drained or broker.leaving:
        return Refusal(Reason.BROKER_DRAINED, f"{target} is drained or leaving")
    if ctx.lags(broker.session):
        return Refusal(Reason.LAGGING, f"the agent of {target} is behind the journal")
    if target not in ctx.placement or not ctx.placement.allows(wanted.seen.bundle.namespace, target):
        return Refusal(Reason.ISOLATION, f"isolation keeps {wanted.seen.bundle.namespace} away from {target}")
    return _crowding_refusal(ctx, wanted.seen, target)


def _describe_unknown(ctx: Context, target: str) -> str:
    """A broker that was never registered is a typing error most of the time, so the answer names those that live."""
    live = [broker.id for broker in ctx.state.live_brokers()]
    return f"there is no broker {target}; live: {few_text(live) or 'none'}"


def _crowding_refusal(ctx: Context, seen: Observation, target: str) -> Refusal | None:
    """Where the namespace has an anti-affinity group, the target must be one of the places with the fewest of it."""
    rules, namespace = ctx.placement.rules, seen.bundle.namespace
    reason = rules.find_crowding(namespace, target, seen.broker) if rules is not None else None
    if reason is None:
        return None
    where = f"the failure domain of {target}" if reason is Reason.FAILURE_DOMAIN else target
    return Refusal(reason, f"{where} has more bundles of {namespace}'s anti-affinity group than other places have")


def _quota_refusal(ctx: Context, wanted: Wanted, at_once: int) -> Refusal | None:
    cluster, most, of_broker = ctx.state.observed, ctx.settings.orders_in_flight, ctx.settings.orders_per_broker
    if len(cluster.orders) + at_once > most:
        return Refusal(Reason.BUDGET_SPENT, f"{len(cluster.orders)} orders are open, at most {most}")
    for broker in (wanted.seen.broker, wanted.target):
        if broker is not None and cluster.orders_of(broker) + at_once > of_broker:
            text = f"{broker} takes part in {cluster.orders_of(broker)} open orders, at most {of_broker}"
            return Refusal(Reason.BUDGET_SPENT, text)
    return None


def backs_off(ctx: Context, name: str, at_ms: int) -> bool:
    """Whether rounds leave the bundle alone after orders that brought nothing. Commands do not."""
    block = ctx.state.observed.blocks.get(name)
    return block is not None and at_ms < block.not_before_ms


def send_order(
    ctx: Context,
    wanted: Wanted,
    reason: str,
    *,
    decision_id: str | None = None,
    command_id: str | None = None,
    attempt_id: str | None = None,
) -> None:
    """Open an order that `find_refusal` does not refuse."""
    seen, name = wanted.seen, wanted.name
    source = str(seen.broker)
    executor = ctx.state.session_of(source)
    assert executor is not None, "an order to a broker without a session"
    data: dict[str, Any] = {
        "id": decision_id or f"{command_id}:{name.rpartition('/')[2]}",
        "kind": wanted.kind.value,
        "source": source,
        "executor": executor.nonce,
    }
    if wanted.target is not None:
        data["target"] = wanted.target
    if wanted.boundary is not None:
        data["boundary"] = wanted.boundary
    causes = {"decision_id": decision_id, "command_id": command_id, "attempt_id": attempt_id}
    ctx.emit(Kind.ORDER, bundle=name, reason=reason, data=data, **causes)
    ctx.watch.follow_order(ctx.state, name, ctx.read_ms)
    if wanted.target is not None:
        ctx.note_observed_move(seen.bundle, source, wanted.target)


def on_order_ended(ctx: Context, event: BrokerEvent) -> None:
    """The executor tells an order's outcome. Later answers about it change nothing."""
    order = ctx.state.observed.orders.get(str(event.bundle))
    if order is None or order.id != event.data.get("id") or order.executor != event.session.nonce:
        ctx.watch.refuse("late_order_answer")
        return
    try:
        outcome = OrderOutcome(event.data.get("outcome"))
    except ValueError:
        outcome = OrderOutcome.RELEASED
    if outcome not in _BY_EXECUTOR:
        ctx.watch.refuse("order_outcome_invalid")
        return
    end_order(ctx, order, outcome, event.data)


def expire_orders(ctx: Context) -> None:
    """End the orders whose deadline has passed. Nobody resumes them."""
    for name, at_ms in sorted(ctx.watch.order_deadlines.items()):
        order = ctx.state.observed.orders.get(name)
        if order is not None and ctx.now_ms > at_ms:
            end_order(ctx, order, OrderOutcome.EXPIRED, {})


def end_orders_of(ctx: Context, ended: Session) -> None:
    """End the orders of an agent that has no living session left."""
    if any(session.nonce == ended.nonce for session in ctx.state.sessions):
        return
    for order in sorted(ctx.state.observed.orders.values(), key=lambda order: order.seq):
        if order.executor == ended.nonce:
            end_order(ctx, order, OrderOutcome.EXECUTOR_GONE, {})


def end_order(ctx: Context, order: Order, outcome: OrderOutcome, account: Any) -> None:
    """Close an order. `account`: the executor's account of it."""
    name = str(order.bundle)
    ended_at_ms = _number_of(account, "ended_at_ms") or ctx.state.round_at_ms
    data: dict[str, Any] = {
        "id": order.id,
        "outcome": outcome.value,
        "ended_at_ms": ended_at_ms,
        "took_ms": _number_of(account, "took_ms"),
        "detail": str(account.get("detail") or "")[:MAX_DETAIL_CHARS],
        **_cut_of(order, account),
    }
    if outcome in BACKS_OFF:
        block = ctx.state.observed.blocks.get(name)
        doublings = min(block.failures if block is not None else 0, MOST_BACK_OFF)
        data["not_before_ms"] = ended_at_ms + (ctx.settings.order_back_off_ms << doublings)
    kept = account.get("destination_kept", False) if outcome is OrderOutcome.MOVED else account.get("sent", True)
    if order.kind is OrderKind.MOVE and kept:
        data["range_blocked"] = ctx.state.modular
    owner = account.get("owner") if isinstance(account.get("owner"), str) else None
    ctx.watch.order_deadlines.pop(name, None)
    ctx.emit(
        Kind.ORDER_ENDED,
        bundle=name,
        broker=owner,
        reason=order.reason,
        decision_id=order.decision_id,
        command_id=order.command_id,
        data=data,
    )
    if order.target is not None and outcome is not OrderOutcome.MOVED:
        ctx.note_observed_move(order.bundle, order.target, owner or order.source)


def _cut_of(order: Order, account: Any) -> dict[str, int]:
    """Where the executor cut the bundle; agents of older versions do not tell it."""
    boundary = _number_of(account, "boundary")
    inside = boundary is not None and order.bundle.lower < boundary < order.bundle.upper
    return {"boundary": boundary} if boundary is not None and inside and order.kind is OrderKind.SPLIT else {}


def _number_of(account: Any, key: str) -> int | None:
    value = account.get(key)
    return value if is_whole(value) else None
