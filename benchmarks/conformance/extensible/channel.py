"""Adapters for the extensible manager's channel: state-class, state-transition, state-conflict, state-channel.

State-channel cases are short stories in words. This module handles those about a single entry or a registry event;
`stories.py` plays those with steps on the channel model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.conformance.layout import knobs_of, names_of
from benchmarks.conformance.reading import pass_over
from benchmarks.conformance.stories import CLEANUPS, play
from benchmarks.conformance.values import Adapters, BadCase, Case
from controller.pulsar.channel.cleanup import MAX_CLEAN_UP_DELAY_MS, CleanupJobs, metadata_state
from controller.pulsar.channel.conflicts import should_keep_existing
from controller.pulsar.channel.lookup import Answer, Lookup, look_up
from controller.pulsar.channel.protocol import Channel, child_name, halves
from controller.pulsar.channel.states import (
    ACTIVE,
    IN_FLIGHT,
    SEMI_TERMINAL,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    is_valid_transition,
)

NAMESPACE = "tenant/namespace"
S = ServiceUnitState
_CREATED_AGAIN = re.compile(r"broker created again (before|after) (?:the )?delay")


def state_class(case: Case) -> Mapping[str, Any]:
    """The states by class, in the order in which the cases list them."""
    classes = {"inFlight": IN_FLIGHT, "active": ACTIVE, "semiTerminal": SEMI_TERMINAL}
    none = frozenset(S) - ACTIVE - SEMI_TERMINAL
    found = {name: [state.value for state in _ORDER if state in members] for name, members in classes.items()}
    return {**found, "none": [state.value for state in none]}


_ORDER = (S.OWNED, S.ASSIGNING, S.RELEASING, S.SPLITTING, S.FREE, S.DELETED, S.INIT)


def state_transition(case: Case) -> Mapping[str, Any]:
    """The legal and the illegal transitions from a state."""
    before, storage = S(case["from"]), _storage(case)
    allowed = [after.value for after in S if is_valid_transition(before, after, storage)]
    return {"allowed": allowed, "rejected": [after.value for after in S if after.value not in allowed]}


def state_conflict(case: Case) -> Mapping[str, Any]:
    """Whether the existing entry is kept. `from` may be 'any state', for an entry in each of the states."""
    storage, new = _storage(case), _entry(case["to"])
    if isinstance(case["from"], str):
        if case["from"] != "any state":
            raise BadCase(f"from {case['from']!r}: it must be an entry, null or 'any state'")
        answers = {should_keep_existing(ServiceUnitStateData(state, "broker"), new, storage) for state in S}
        return {"keep_existing": answers.pop() if len(answers) == 1 else None}
    return {"keep_existing": should_keep_existing(_entry(case["from"]), new, storage)}


def state_channel(case: Case) -> Mapping[str, Any]:
    """A case has a metadata session, one entry, several entries, or a story."""
    config = case.get("config") or {}
    if "metadata_session" in config:
        return _delete_broker(str(config["metadata_session"]), [str(step) for step in case.get("steps") or ()])
    state = case.get("state")
    if isinstance(state, Mapping) and "state" in state:
        data = _entry(state)
        answer = look_up(None if data and data.state is S.INIT else data, "self", ("self", "other"))
        return {"lookup": _answer(answer)}
    if isinstance(state, Mapping):
        return _override(case, state)
    if case.get("steps"):
        return play([str(step) for step in case["steps"]], knobs_of(case))
    raise BadCase("no entry, no steps and no metadata_session to go by")


def _storage(case: Case) -> StorageType:
    return StorageType((case.get("config") or {}).get("storageType", "SystemTopic"))


def _entry(row: Mapping[str, Any] | None) -> ServiceUnitStateData | None:
    if row is None:
        return None
    pass_over(row, "timestamp")  # the version decides between two entries
    return ServiceUnitStateData(
        S(row["state"]),
        row.get("dstBroker"),
        row.get("sourceBroker"),
        force=bool(row.get("force", False)),
        version_id=int(row.get("versionId", 1)),
    )


def _answer(found: Lookup) -> str | None:
    return found.answer.value.upper() if found.answer in (Answer.PENDING, Answer.ERROR) else found.broker


def _delete_broker(session: str, steps: Sequence[str]) -> dict[str, Any]:
    """Delete a broker's registration: what leader and follower do, and whether the broker's return cancels it."""
    back = [found[1] for found in map(_CREATED_AGAIN.fullmatch, steps) if found]
    if len(back) + steps.count("broker deleted") < len(steps):
        raise BadCase(f"steps {steps!r}: write 'broker deleted' and 'broker created again before delay'")
    now_ms = 10 * MAX_CLEAN_UP_DELAY_MS
    recent = re.search(r"within (\d+) s", session)
    older = re.search(r"more than (\d+) s ago", session)
    exactly = None if older else re.search(r"(\d+) s ago", session)
    lost = "lost" in session.lower()
    if not (recent or older or exactly or lost):
        raise BadCase(f"metadata_session {session!r}: it must be lost, within N s, or more than N s ago")
    age_s = int(older[1]) + 1 if older else int(recent[1]) // 2 if recent else int(exactly[1]) if exactly else 0
    state = metadata_state(lost, now_ms - age_s * 1_000, now_ms)
    leader, follower, returning = CleanupJobs(), CleanupJobs(), CleanupJobs()
    for jobs in (leader, follower, returning):
        jobs.on_broker_deleted("broker", state, jobs is not follower, now_ms)
    results = ("Skip", "Schedule", "Cancel", "Success")
    counted = {f"inactive_broker_cleanup {result}": leader.counter[result] for result in results}
    if "broker" not in leader.due_at_ms:
        return {"cleanup": "ignored", "counter": counted}
    delay_ms = leader.due_at_ms["broker"] - now_ms
    in_between = returning.take_due(now_ms + (delay_ms if "after" in back else 0))
    returning.on_broker_created("broker")
    return {
        "cleanup": "scheduled",
        "cleanup_delay_s": delay_ms // 1_000,
        "only_on_leader": not follower.due_at_ms,
        "cancelled_on_return": not in_between and not returning.take_due(now_ms + delay_ms),
        "counter": counted,
    }


def _override(case: Case, states: Mapping[str, Any]) -> dict[str, Any]:
    """Clean up after one broker, or run the monitor, with entries of several bundles."""
    rows = case.get("brokers") or {}
    config = case.get("config") or {}
    knobs = knobs_of(case, {knob: config[name] for name, knob in _KNOBS.items() if name in config})
    selected, inactive = _broker(rows["selected"]), rows.get("inactive")
    active = {_broker(broker) for broker in names_of(rows.get("active") or [rows["selected"]])}
    channel = Channel(active, knobs, select=lambda candidates: selected)
    bundles = {f"{NAMESPACE}/0x{at << 16:08x}_0x{(at + 1) << 16:08x}": name for at, name in enumerate(states)}
    for bundle, name in bundles.items():
        channel.entries[bundle] = _parse_entry(states[name], bundle)
    before = dict(channel.entries)
    if inactive is not None:
        channel.clean_up(_broker(inactive))
        ends = {name: _end(channel, bundle, before[bundle], selected) for bundle, name in bundles.items()}
        return {**ends, "counters": _cleanups(channel)}
    channel.run_monitor()
    owners: dict[str, str | None] = {}
    for bundle, name in bundles.items():
        split = before[bundle].state is S.SPLITTING
        owners[f"{name}_children" if split else name] = _owner(channel, bundle, before[bundle])
    return {**owners, "counters": _cleanups(channel)}


def _cleanups(channel: Channel) -> dict[str, int]:
    return {name: channel.cleanups[name] for name in CLEANUPS}


_KNOBS = {"inFlightStateWaitingTimeInMillis": "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis"}


def _parse_entry(row: Any, bundle: str) -> ServiceUnitStateData:
    """Parse an entry: an object, or [state, "dst=…", "src=…"]."""
    if isinstance(row, Mapping):
        data = _entry(row)
        assert data is not None
    else:
        named = dict(text.split("=", 1) for text in row[1:])
        data = ServiceUnitStateData(S(row[0]), named.get("dst"), named.get("src"))
    children = tuple((child, None) for child in halves(bundle)) if data.state is S.SPLITTING else ()
    to = _broker(data.dst_broker) if data.dst_broker else None
    by = _broker(data.source_broker) if data.source_broker else None
    return ServiceUnitStateData(data.state, to, by, children, version_id=data.version_id)


def _broker(name: str) -> str:
    """The broker's name; the case file has both broker3 and broker-3."""
    return re.sub(r"^broker-(\d+)$", r"broker\1", name)


def _owner(channel: Channel, bundle: str, before: ServiceUnitStateData) -> str | None:
    """The final owner of the bundle, or of all its children."""
    names = [child_name(bundle, child) for child, _ in before.children] or [bundle]
    owners = {channel.look_up(name, min(channel.active)).broker for name in names}
    return owners.pop() if len(owners) == 1 else None


def _end(channel: Channel, bundle: str, before: ServiceUnitStateData, selected: str) -> str:
    """What happened to one bundle, in the words of the case file."""
    after = channel.entries.get(bundle)
    found = channel.look_up(bundle, selected)
    if found.answer is Answer.ERROR:
        return "lookup error"
    if before.children and after is None:
        owner = _owner(channel, bundle, before)
        return f"split is finished by {selected}; children owned by {owner}; parent gone"
    if after == before:
        return "unchanged, no owner" if found.answer is Answer.NOBODY else f"unchanged, {_answer(found)}"
    return f"{after.state.value if after else 'Init'} by {_answer(found)}"


ADAPTERS: Adapters = {
    ("state-class", "ServiceUnitState"): state_class,
    ("state-transition", "ServiceUnitState"): state_transition,
    ("state-conflict", "ServiceUnitStateDataConflictResolver"): state_conflict,
    ("state-channel", "ServiceUnitStateChannel"): state_channel,
}
