"""Operators' commands. Each id ends in exactly one `command_accepted` or `command_rejected` entry.

Commands are carried out in every mode. A handler raises BadRecord to reject one; its text is journaled and tells the
operator what is wrong and what would be right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.control.command_args import Effect, InPart, all_but_there, number_of, text_of
from controller.control.context import Context
from controller.control.order_commands import ADOPTION_HANDLERS, ORDER_HANDLERS, is_release
from controller.control.policy_commands import end_override, set_override, set_strategy
from controller.control.rounds.approvals import approve, decline
from controller.control.splits import begin_split, split_refusal
from controller.control.strays import is_meant_for_another
from controller.domain.entries import Kind
from controller.domain.errors import BadRecord
from controller.domain.events import COMMAND_KINDS, Command
from controller.domain.ids import MAX_PARTITIONS, Bundle, Session, namespace_of, partition_names, topic_hash
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles, locate
from controller.domain.state import METADATA, MODES

MAX_NAMESPACE_CHARS = 256  # a bundle's name is 22 characters longer; agents' records take names of up to 512


def on_commands(ctx: Context, commands: Sequence[Command]) -> None:
    """Carry out the commands of a batch in their order. One that is before a release sends no order any more."""
    releases = [at for at, command in enumerate(commands) if is_release(ctx, command)]
    for at, command in enumerate(commands):
        ctx.release_follows = bool(releases) and at < releases[-1]
        on_command(ctx, command)


def on_command(ctx: Context, command: Command) -> None:
    """Accept and carry out a command, or reject it with a reason. A known id, or another journal's, changes nothing."""
    if is_meant_for_another(ctx, command):
        return
    if command.id in ctx.state.commands:
        ctx.watch.refuse("command_repeated")
        return
    try:
        handler = _HANDLERS.get(command.kind)
        if ctx.state.authority == METADATA:
            handler = ORDER_HANDLERS.get(command.kind, handler)
        if handler is None:
            raise BadRecord("command_kind", f"{command.kind!r} is none of {', '.join(sorted(COMMAND_KINDS))}")
        effect = handler(ctx, command)
    except BadRecord as error:
        _record(ctx, Kind.COMMAND_REJECTED, command, error.text)
        return
    _record(ctx, Kind.COMMAND_ACCEPTED, command, effect.rest if isinstance(effect, InPart) else None)
    effect()


def _record(ctx: Context, kind: Kind, command: Command, reason: str | None) -> None:
    data = {"kind": command.kind, "args": dict(command.args), "who": command.who, "why": command.why}
    ctx.emit(kind, command_id=command.id, reason=reason, data=data)


def _create_namespace(ctx: Context, command: Command) -> Effect:
    namespace = text_of(command, "namespace")
    if namespace.count("/") != 1 or not all(namespace.split("/")) or " " in namespace:
        raise BadRecord("namespace", f"{namespace!r} is not tenant/namespace")
    if len(namespace) > MAX_NAMESPACE_CHARS:
        raise BadRecord(
            "namespace", f"{namespace[:80]!r}… has {len(namespace)} characters, at most {MAX_NAMESPACE_CHARS}"
        )
    if namespace in ctx.state.namespaces:
        raise BadRecord("namespace", f"{namespace} exists already")
    count = number_of(command, "bundles", ctx.settings.split.default_number_of_namespace_bundles)
    names = [str(b) for b in initial_bundles(namespace, count)]
    return lambda: ctx.emit(Kind.NAMESPACE_CREATED, data={"namespace": namespace, "bundles": names})


def _create_topic(ctx: Context, command: Command) -> Effect:
    topic = text_of(command, "topic")
    namespace = namespace_of(topic)
    if namespace not in ctx.state.namespaces:
        raise BadRecord("namespace", f"{namespace} does not exist; create it first")
    if topic in ctx.state.topics:
        raise BadRecord("topic", f"{topic} exists already")
    partitions = number_of(command, "partitions", 0)
    if not 0 <= partitions <= MAX_PARTITIONS:
        raise BadRecord("partitions", f"{partitions} is not in 0..{MAX_PARTITIONS}")
    return lambda: ctx.emit(Kind.TOPIC_CREATED, data={"topic": topic, "partitions": partitions})


def _unload_bundle(ctx: Context, command: Command) -> Effect:
    record = _living(ctx, text_of(command, "bundle"))
    _check_target(ctx, command)
    if record.state is State.FREE:
        raise BadRecord("bundle", f"{record.bundle} is owned by nobody")
    if record.state is not State.OWNED:
        raise BadRecord("bundle", f"{record.bundle} is {record.state.value}; try again when it is owned")
    if record.by is not None and record.by == _target_of(ctx, command):
        raise BadRecord("to", f"{record.by.broker} owns {record.bundle} already")
    return lambda: _unload(ctx, command, record)


def _unload_namespace(ctx: Context, command: Command) -> Effect:
    namespace = text_of(command, "namespace")
    if namespace not in ctx.state.namespaces:
        raise BadRecord("namespace", f"{namespace} does not exist")
    _check_target(ctx, command)
    target = _target_of(ctx, command)
    owned = [r for b in ctx.state.namespaces[namespace] if (r := ctx.state.bundles[str(b)]).state is State.OWNED]
    moving = [record for record in owned if target is None or record.by != target]

    def effect() -> None:
        for record in moving:
            _unload(ctx, command, record)

    there = len(owned) - len(moving)
    return all_but_there(effect, namespace, target.broker if target else None, there, len(moving))


def _unload(ctx: Context, command: Command, record: Ownership) -> None:
    """Transfer to the named broker; without one, release the bundle and let placement choose."""
    target = _target_of(ctx, command)
    if target is not None:
        ctx.move(
            record,
            State.TRANSFERRING,
            by=record.by,
            to=target,
            burn=True,
            reason="commanded",
            command_id=command.id,
            moving_at_ms=ctx.state.round_at_ms,
        )
    else:
        ctx.move(record, State.RELEASING, by=record.by, burn=True, reason="commanded", command_id=command.id)


def _unload_topic(ctx: Context, command: Command) -> Effect:
    """Pulsar's `topics unload`: the owner closes and reopens the topic; owner and epoch stay the same."""
    topic = text_of(command, "topic")
    bundles = ctx.state.namespaces.get(namespace_of(topic))
    if not bundles:
        raise BadRecord("namespace", f"{namespace_of(topic)} does not exist")
    parts = partition_names(topic, ctx.state.topics.get(topic, 0))
    places = [(part, ctx.state.bundles[str(locate(bundles, topic_hash(part)))]) for part in parts]
    served = [(part, record) for part, record in places if record.by is not None]
    if not served:
        raise BadRecord("topic", f"{topic} is served by nobody")

    def effect() -> None:
        for part, record in served:
            fields = {"bundle": str(record.bundle), "by": str(record.by), "data": {"topic": part}}
            ctx.emit(Kind.TOPIC_UNLOAD, command_id=command.id, **fields)

    return effect


def _split_bundle(ctx: Context, command: Command) -> Effect:
    record = _living(ctx, text_of(command, "bundle"))
    boundary = number_of(command, "boundary", record.bundle.middle())
    send_on = bool(command.args.get("unload", False))
    refusal = split_refusal(ctx, record, boundary)
    if refusal:
        raise BadRecord("split", refusal[1])
    return lambda: begin_split(ctx, record, boundary, "commanded", command_id=command.id, send_on=send_on)


def _set_drained(drained: bool) -> Callable[[Context, Command], Effect]:
    def handler(ctx: Context, command: Command) -> Effect:
        broker = text_of(command, "broker")
        if broker not in ctx.state.brokers:
            known = ", ".join(sorted(ctx.state.brokers)[:10]) or "none"
            raise BadRecord("broker", f"{broker} is not registered; known: {known}")
        return lambda: ctx.emit(Kind.DRAIN, broker=broker, command_id=command.id, data={"drained": drained})

    return handler


def _mode(ctx: Context, command: Command) -> Effect:
    mode = text_of(command, "mode")
    if mode not in MODES:
        raise BadRecord("mode", f"{mode!r} is none of {', '.join(MODES)}")
    return lambda: ctx.emit(Kind.MODE, command_id=command.id, data={"mode": mode})


def _round_now(ctx: Context, command: Command) -> Effect:
    """No effect here: the round worker reads the accepted entry from the journal, even after a crash."""
    return lambda: None


def _thaw(ctx: Context, command: Command) -> Effect:
    """The accepted entry resets the mass-failure breaker (`ClusterState.thawing`) until leases were checked again."""
    if not ctx.state.frozen:
        raise BadRecord("guard", "the mass-failure breaker has not tripped")
    return lambda: None


_HANDLERS: dict[str, Callable[[Context, Command], Effect]] = {
    "create_namespace": _create_namespace,
    "create_topic": _create_topic,
    "unload_bundle": _unload_bundle,
    "unload_namespace": _unload_namespace,
    "unload_topic": _unload_topic,
    "split_bundle": _split_bundle,
    "drain": _set_drained(True),
    "undrain": _set_drained(False),
    "mode": _mode,
    "strategy": set_strategy,
    "override": set_override,
    "end_override": end_override,
    "round_now": _round_now,
    "thaw": _thaw,
    "approve": approve,
    "decline": decline,
    **ADOPTION_HANDLERS,
}


def _living(ctx: Context, name: str) -> Ownership:
    record = ctx.bundle(Bundle.parse(name))
    if record is None or record.state is State.RETIRED:
        what = "was split and is retired" if record else "is no bundle of any namespace"
        raise BadRecord("bundle", f"{name} {what}")
    return record


def _target_of(ctx: Context, command: Command) -> Session | None:
    """The living session of the broker named as target; None if none is named."""
    return ctx.state.session_of(str(command.args.get("to") or ""))


def _check_target(ctx: Context, command: Command) -> None:
    if command.args.get("to") is None:
        return
    target = text_of(command, "to")
    session = ctx.state.session_of(target)
    if session is None:
        alive = ", ".join(b.id for b in ctx.state.live_brokers()[:10]) or "none"
        raise BadRecord("to", f"{target!r} is no living broker; alive: {alive}")
    if ctx.state.brokers[target].drained:
        raise BadRecord("to", f"{target} is drained; undrain it first")
    if ctx.state.brokers[target].leaving:
        raise BadRecord("to", f"{target} is leaving; choose another broker")
    if ctx.lags(session):
        raise BadRecord("to", f"{target} is too far behind the journal to be granted anything; try again soon")
