"""Steps in words, for traces."""

from __future__ import annotations

from collections.abc import Sequence

from controller.sim.model.control import Event, On
from controller.sim.model.states import ANSWERS, BY, FENCER, ROLES, STATES, TO, Member, Record, Shared

NAMES = "ABC"
EVENTS = {
    On.REGISTERS: "registers the session of {who}",
    On.ENDS: "ends the session of {who}, whose agent still counts its lease as valid",
    On.GOODBYE: "reads `goodbye` of {who}",
    On.LEAVES: "reads `leaving` of {who}",
    On.LISTS: "misses the bundle in the inventory of {who}",
    On.PLACES: "places the bundle",
    On.EVACUATES: "moves the bundle from a leaving broker",
    On.EXPIRES: "gives up waiting, at the deadline",
    On.MOVES: "is commanded to move the bundle to {who}",
    On.UNLOADS: "is commanded to unload the bundle",
    On.SPLITS: "is commanded to split the bundle",
}
PARTIES = {BY: "by", TO: "to", FENCER: "fencer"}


def tell_event(event: Event) -> str:
    """What the controller does."""
    who = NAMES[event.broker]
    if event.name == On.ANSWER:
        return f"the controller reads `{ANSWERS[event.answer]}` of {who}{' (older session)' if event.older else ''}"
    text = "ends the older session of {who}" if event.name == On.ENDS and event.older else EVENTS[event.name]
    return f"the controller {text.format(who=who)}"


def tell_change(before: Shared, were: Sequence[Member], after: Shared, members: Sequence[Member]) -> str:
    """The records that a step has changed; empty if it has changed none."""
    told = []
    for bundle, (old, new) in enumerate(zip(before.records, after.records, strict=True)):
        if new is not None:
            text = _tell_record(new, bundle, members)
            if old is None or text != _tell_record(old, bundle, were):
                told.append(text if len(after.records) == 1 else f"bundle {bundle} {text}")
    return f" → {'; '.join(told)}" if told else ""


def _tell_record(record: Record, bundle: int, members: Sequence[Member]) -> str:
    parts = [STATES[record.state].value, f"epoch {record.epoch}"]
    for name, member in zip(NAMES, members, strict=True):
        roles = member.standing.roles[bundle]
        parts += [f"{PARTIES[roles % ROLES]} {name}"] if roles % ROLES else []
        parts += [f"{PARTIES[roles // ROLES]} the older session of {name}"] if roles // ROLES else []
    return ", ".join(parts + ["released"] * record.released + ["fence"] * record.fence)
