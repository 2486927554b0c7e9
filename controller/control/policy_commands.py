"""Commands that change how rounds decide: the acting strategy, its challengers, overrides.

They are journaled, so a restarted controller continues with them. A round that was computed before such a command took
effect is void (`controller.control.rounds`).
"""

from __future__ import annotations

from controller.control.command_args import MAX_TEXT, Effect, number_of, text_of
from controller.control.context import Context
from controller.domain.entries import Kind
from controller.domain.errors import BadRecord, ConfigError, shown
from controller.domain.events import Command
from controller.domain.ids import Bundle
from controller.domain.observed import has_bundle
from controller.domain.overrides import AVOID, EXCLUDE_NAMESPACE, KINDS, PIN, Override
from controller.domain.ownership import State
from controller.policy.strategies import get

CONFIGURED = "configured"  # in place of a name: as configured
MAX_OVERRIDES = 1_000  # every round checks each of them


def set_strategy(ctx: Context, command: Command) -> Effect:
    """`strategy`: a name, `configured`, or absent to keep it. `challengers`: a list of names, or the same."""
    state = ctx.state
    strategy: str | None = state.strategy or None
    challengers = state.challengers
    if command.args.get("strategy") is not None:
        name = text_of(command, "strategy")
        strategy = None if name == CONFIGURED else _check_strategy(name)
    given = command.args.get("challengers")
    if given is not None:
        challengers = None if given == CONFIGURED else _check_strategies(given)
    if challengers and strategy in challengers:
        challengers = tuple(name for name in challengers if name != strategy)
    if command.args.get("strategy") is None and given is None:
        raise BadRecord("strategy", "strategy needs strategy, challengers or both")
    data = {"strategy": strategy, "challengers": None if challengers is None else list(challengers)}
    return lambda: ctx.emit(Kind.STRATEGY, command_id=command.id, data=data)


def _check_strategy(name: str) -> str:
    try:
        return get(name).name
    except ConfigError as error:
        raise BadRecord("strategy", str(error)) from None


def _check_strategies(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) and len(name) <= MAX_TEXT for name in given):
        raise BadRecord("challengers", f"challengers are a list of names of strategies, got {shown(given)}")
    return tuple(dict.fromkeys(_check_strategy(name) for name in given))


def set_override(ctx: Context, command: Command) -> Effect:
    """`override`: one of KINDS, with `bundle` or `namespace`, with `broker` for some kinds, `until_ms` to make it
    expire."""
    kind = text_of(command, "override")
    if kind not in KINDS:
        raise BadRecord("override", f"{kind!r} is none of {', '.join(KINDS)}")
    if len(ctx.state.overrides) >= MAX_OVERRIDES:
        raise BadRecord("override", f"there are {MAX_OVERRIDES} overrides already; end some first")
    until_ms = number_of(command, "until_ms", 0)
    if until_ms < 0 or 0 < until_ms <= ctx.state.round_at_ms:
        raise BadRecord("until_ms", f"{until_ms} has passed already; give ms since the epoch, or nothing")
    wish = Override(
        id=command.id,
        kind=kind,
        namespace=_namespace(ctx, command, kind),
        bundle=_bundle(ctx, command, kind),
        broker=_broker(ctx, command, kind),
        until_ms=until_ms or None,
        who=command.who,
        why=command.why,
        seq=0,
    )
    _check_new(ctx, wish)
    return lambda: ctx.emit(Kind.OVERRIDE, command_id=command.id, data={"override": wish.to_json()})


def end_override(ctx: Context, command: Command) -> Effect:
    """End the override with this `id`."""
    wanted = text_of(command, "id")
    if wanted not in ctx.state.overrides:
        known = ", ".join(list(ctx.state.overrides)[-10:]) or "none"
        raise BadRecord("id", f"no override has the id {wanted}; newest: {known}")
    return lambda: ctx.emit(Kind.OVERRIDE, command_id=command.id, data={"ended": wanted})


def _namespace(ctx: Context, command: Command, kind: str) -> str | None:
    if kind != EXCLUDE_NAMESPACE and command.args.get("namespace") is None:
        return None
    if kind not in (EXCLUDE_NAMESPACE, AVOID):
        raise BadRecord("namespace", f"{kind} takes a bundle, not a namespace")
    namespace = text_of(command, "namespace")
    if namespace not in ctx.state.namespaces and namespace not in ctx.state.observed.rings:
        raise BadRecord("namespace", f"{namespace} does not exist")
    return namespace


def _bundle(ctx: Context, command: Command, kind: str) -> str | None:
    given = command.args.get("bundle") is not None
    if kind == EXCLUDE_NAMESPACE or (kind == AVOID and command.args.get("namespace") is not None):
        if given:
            raise BadRecord("bundle", f"{kind} takes a namespace or a bundle, not both")
        return None
    bundle = Bundle.parse(text_of(command, "bundle"))
    if has_bundle(ctx.state.observed.rings.get(bundle.namespace, ()), bundle):
        return str(bundle)
    record = ctx.bundle(bundle)
    if record is None or record.state is State.RETIRED:
        raise BadRecord("bundle", f"{command.args['bundle']} is no bundle of any namespace now")
    return str(record.bundle)


def _broker(ctx: Context, command: Command, kind: str) -> str | None:
    if kind not in (PIN, AVOID):
        if command.args.get("broker") is not None:
            raise BadRecord("broker", f"{kind} takes no broker")
        return None
    broker = text_of(command, "broker")
    if broker not in ctx.state.brokers:
        known = ", ".join(sorted(ctx.state.brokers)[:10]) or "none"
        raise BadRecord("broker", f"{broker} is not registered; known: {known}")
    return broker


def _check_new(ctx: Context, wish: Override) -> None:
    """Raise BadRecord for an override that contradicts or repeats an existing one, which must be ended first."""
    for other in ctx.state.overrides.values():
        of_same = (other.bundle, other.namespace) == (wish.bundle, wish.namespace)
        if of_same and other.kind == wish.kind and (wish.kind == PIN or other.broker == wish.broker):
            raise BadRecord("override", f"{wish.bundle or wish.namespace} has {other.kind} {other.id} already")
        if wish.bundle is None or wish.broker != other.broker or {wish.kind, other.kind} != {PIN, AVOID}:
            continue
        if other.concerns(Bundle.parse(wish.bundle)):
            raise BadRecord("override", f"{wish.bundle} has {other.kind} {other.id} of the same broker: end it first")
