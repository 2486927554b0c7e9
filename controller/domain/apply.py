"""`fold(state, entries)`: the only way a cluster state changes. Pure: the same state and entries give the same result.

Raises InvariantBroken when the journal contradicts itself (a gap in seq, an illegal transition, a broken ring); the
process must then stop. An entry of an unknown kind advances `seq` and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from controller.domain.apply_observed import (
    apply_adoption,
    apply_fact,
    apply_observed,
    apply_observer_ended,
    apply_order,
    apply_order_ended,
    apply_ring,
)
from controller.domain.decision import KeptPlan, PlanPhase
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle, Session
from controller.domain.overrides import Override
from controller.domain.ownership import Ownership, State, check_transition
from controller.domain.ring import check_cover
from controller.domain.state import Broker, ClusterState, is_foreign

COMMANDS_KEPT = 10_000


def fold(state: ClusterState, entries: Iterable[Entry]) -> ClusterState:
    """The state after the entries; the given state is not changed."""
    result = state.copy()
    for entry in entries:
        apply_in_place(result, entry)
    return result


def apply_in_place(state: ClusterState, entry: Entry) -> None:
    """Apply one entry to a state that the caller owns (see `ClusterState.copy`)."""
    if entry.seq != state.seq + 1:
        raise InvariantBroken(f"entry {entry.seq} does not follow {state.seq}")
    handler = _HANDLERS.get(entry.kind)
    if handler is not None:
        handler(state, entry)
    state.seq = entry.seq


def _apply_started(state: ClusterState, entry: Entry) -> None:
    journal_id = entry.data.get("journal_id")
    if is_foreign(state.journal_id, journal_id):
        raise InvariantBroken(
            f"entry {entry.seq} is of journal {journal_id}, the entries before it are of {state.journal_id}: these "
            "tables have replaced others; start again to read them from the beginning"
        )
    state.instance, state.controller_running = entry.instance, True
    state.journal_id = journal_id or state.journal_id
    state.epoch_floor = max(state.epoch_floor, int(entry.data.get("epoch_floor") or 0))


def _apply_stopped(state: ClusterState, entry: Entry) -> None:
    if entry.instance == state.instance:
        state.controller_running = False


def _apply_offsets(state: ClusterState, entry: Entry) -> None:
    for topic, partitions in entry.data["topics"].items():
        state.offsets[topic] = {**state.offsets.get(topic, {}), **partitions}
    state.kafka = {k: v for k, v in entry.data.items() if k != "topics"} or state.kafka


def _apply_registered(state: ClusterState, entry: Entry) -> None:
    session = Session.parse(entry.session or "")
    old = state.brokers.get(session.broker)
    if old and (session.incarnation, session.number) <= (old.session.incarnation, old.session.number):
        raise InvariantBroken(f"{session} registers after {old.session}")
    same_process = old is not None and old.session.process == session.process
    state.brokers[session.broker] = Broker(
        session.broker,
        session,
        entry.data.get("info", {}),
        drained=old.drained if old else False,
        leaving=bool(old and old.leaving and same_process),
        seq=entry.seq,
    )
    state.sessions[session] = entry.seq


def _apply_session_ended(state: ClusterState, entry: Entry) -> None:
    session = Session.parse(entry.session or "")
    if state.sessions.pop(session, None) is None:
        raise InvariantBroken(f"{session} ends twice or never lived")
    if state.brokers[session.broker].session == session:  # else a newer process observes
        apply_observer_ended(state, session.broker)


def _apply_drain(state: ClusterState, entry: Entry) -> None:
    broker = state.brokers[entry.broker or ""]
    state.brokers[broker.id] = replace(
        broker,
        drained=bool(entry.data.get("drained", broker.drained)),
        leaving=bool(entry.data.get("leaving", broker.leaving)),
    )


def _apply_namespace_created(state: ClusterState, entry: Entry) -> None:
    namespace = entry.data["namespace"]
    bundles = tuple(sorted(Bundle.parse(name) for name in entry.data["bundles"]))
    check_cover(namespace, bundles)
    state.namespaces[namespace] = bundles
    for bundle in bundles:
        state.put(Ownership(bundle, State.FREE, state.epoch_floor, seq=entry.seq))


def _apply_topic_created(state: ClusterState, entry: Entry) -> None:
    state.topics[entry.data["topic"]] = int(entry.data["partitions"])


def _apply_ownership(state: ClusterState, entry: Entry) -> None:
    old = state.bundles.get(entry.bundle or "")
    if old is None:
        raise InvariantBroken(f"entry {entry.seq} names {entry.bundle}, which no namespace has")
    new = entry.ownership(old.moved_at_ms)
    check_transition(old, new)
    for party in (new.by, new.to):
        if party is not None and party not in state.sessions:
            raise InvariantBroken(f"entry {entry.seq}: {new.bundle} {new.state.value} names {party}, which has ended")
    state.put(new)


def _apply_split(state: ClusterState, entry: Entry) -> None:
    parent = state.bundles[entry.bundle or ""]
    if parent.state is not State.SPLITTING:
        raise InvariantBroken(f"{parent.bundle} is split while {parent.state.value}")
    state.put(Ownership(parent.bundle, State.RETIRED, parent.epoch, seq=entry.seq, ever_owned=True))
    children = {Bundle.parse(name): int(epoch) for name, epoch in entry.data["children"].items()}
    for child, epoch in children.items():
        if epoch <= parent.epoch:
            raise InvariantBroken(f"I3: child {child} starts at epoch {epoch}, its parent had {parent.epoch}")
        state.put(
            Ownership(child, State.OWNED, epoch, by=parent.by, seq=entry.seq, ever_owned=True, cause=parent.cause)
        )
    namespace = parent.bundle.namespace
    living = tuple(sorted([b for b in state.namespaces[namespace] if b != parent.bundle] + list(children)))
    check_cover(namespace, living)
    state.namespaces[namespace] = living


def _apply_command(state: ClusterState, entry: Entry) -> None:
    outcome = "accepted" if entry.kind is Kind.COMMAND_ACCEPTED else "rejected"
    state.commands[entry.command_id or ""] = outcome
    if entry.kind is Kind.COMMAND_ACCEPTED and entry.data.get("kind") == "round_now":
        state.round_wanted, state.round_wanted_seq = entry.command_id or "", entry.seq
    elif entry.kind is Kind.COMMAND_ACCEPTED and entry.data.get("kind") == "thaw":
        state.thawing = True
    if len(state.commands) > COMMANDS_KEPT:
        del state.commands[next(iter(state.commands))]


def _apply_mode(state: ClusterState, entry: Entry) -> None:
    state.mode = entry.data["mode"]


def _apply_strategy(state: ClusterState, entry: Entry) -> None:
    challengers = entry.data.get("challengers")
    state.strategy = entry.data.get("strategy") or ""
    state.challengers = None if challengers is None else tuple(challengers)
    state.policy_seq = entry.seq


def _apply_override(state: ClusterState, entry: Entry) -> None:
    ended = entry.data.get("ended")
    if ended is not None:
        state.overrides.pop(ended, None)
    else:
        wish = Override.from_json(entry.data["override"])
        state.overrides[wish.id] = replace(wish, seq=entry.seq)
    if entry.command_id is not None:  # one that expired was found by a round, which already ignored it
        state.policy_seq = entry.seq


def _apply_round(state: ClusterState, entry: Entry) -> None:
    if entry.data.get("challenger"):
        return
    state.round_at_ms = int(entry.data["at_ms"])
    state.round_memory = dict(entry.data.get("memory", {}))
    state.round_id = str(entry.data.get("round_id", ""))
    state.round_seq = entry.seq
    state.rounds += 1
    if int(entry.data.get("state_seq", 0)) >= state.round_wanted_seq:
        state.round_wanted, state.round_wanted_seq = "", 0


def _apply_plan(state: ClusterState, entry: Entry) -> None:
    data = entry.data
    if "moves" in data:
        state.plan = replace(KeptPlan.from_json(data), seq=entry.seq, decided_seq=entry.seq)
    elif state.plan is None or state.plan.round_id != data["round_id"]:
        raise InvariantBroken(f"entry {entry.seq} is about the plan of round {data['round_id']}, which is not kept")
    elif data.get("ended"):
        state.plan = None
    elif "phase" in data:
        phase = PlanPhase(data["phase"])
        moves = () if phase is PlanPhase.DECLINED else state.plan.moves
        who, why = str(data.get("who", "")), str(data.get("why", ""))
        state.plan = replace(state.plan, phase=phase, moves=moves, seq=entry.seq, who=who, why=why)
    else:
        state.plan = state.plan.without(data["outcomes"])


def _apply_breaker(state: ClusterState, entry: Entry) -> None:
    state.frozen = bool(entry.data["frozen"])
    state.silent = tuple(entry.data.get("silent", ())) if state.frozen else ()
    state.thawing = state.thawing and state.frozen


_HANDLERS: Mapping[str, Callable[[ClusterState, Entry], None]] = {
    Kind.CONTROLLER_STARTED: _apply_started,
    Kind.CONTROLLER_STOPPED: _apply_stopped,
    Kind.OFFSETS: _apply_offsets,
    Kind.REGISTERED: _apply_registered,
    Kind.SESSION_ENDED: _apply_session_ended,
    Kind.DRAIN: _apply_drain,
    Kind.NAMESPACE_CREATED: _apply_namespace_created,
    Kind.TOPIC_CREATED: _apply_topic_created,
    Kind.OWNERSHIP: _apply_ownership,
    Kind.SPLIT: _apply_split,
    Kind.COMMAND_ACCEPTED: _apply_command,
    Kind.COMMAND_REJECTED: _apply_command,
    Kind.MODE: _apply_mode,
    Kind.STRATEGY: _apply_strategy,
    Kind.OVERRIDE: _apply_override,
    Kind.ROUND: _apply_round,
    Kind.GUARD: _apply_breaker,
    Kind.PLAN: _apply_plan,
    Kind.OBSERVED: apply_observed,
    Kind.RING: apply_ring,
    Kind.FACT: apply_fact,
    Kind.ADOPTION: apply_adoption,
    Kind.ORDER: apply_order,
    Kind.ORDER_ENDED: apply_order_ended,
}
