"""What the overrides of a bundle come to, in words: whether a pin or an avoidance acts, and if not, why.

Rounds decide by `controller.policy.overrides`; a freeze comes before a pin there, and nothing is sent to a broker that
may take nothing. Said is what the journal knows. Placement, caps and old load reports show in a round's decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.domain.overrides import AVOID, EXCLUDE_NAMESPACE, FREEZE, PIN, Override
from controller.domain.state import LIVE, ClusterState

Row = dict[str, Any]


def with_effects(state: ClusterState, now: Mapping[str, Any], wishes: Sequence[Override]) -> list[Row]:
    """The overrides that concern a bundle, oldest first, each with its `effect`. `now`: the bundle's row."""
    return [{**wish.to_json(), "effect": _effect(state, now, wish, wishes)} for wish in wishes]


def held_by_text(overrides: Sequence[Mapping[str, Any]], owner: str | None, seen_seq: int) -> str | None:
    """The override for which a round at this journal seq left the bundle alone; None if none did."""
    seen = [row for row in overrides if row["seq"] <= seen_seq]
    for kind in (EXCLUDE_NAMESPACE, FREEZE, PIN):  # the strictest names the reason, as in a round
        found = next((row for row in seen if row["kind"] == kind), None)
        if found is not None and (kind != PIN or found["broker"] == owner):
            return f"{kind} {found['id']} keeps it on {owner}"
    pin = next((row for row in seen if row["kind"] == PIN), None)
    return f"pin {pin['id']} to {pin['broker']} {pin['effect']}" if pin is not None else None


def _effect(state: ClusterState, now: Mapping[str, Any], wish: Override, wishes: Sequence[Override]) -> str:
    owner, there = now["owner"], now["owner"] == wish.broker
    if wish.kind == FREEZE:
        return "rounds neither move nor split it"
    if wish.kind == EXCLUDE_NAMESPACE:
        return "rounds neither move nor split the namespace's bundles"
    if wish.kind == AVOID and not there:
        return f"nothing sends it to {wish.broker}"
    if wish.kind == PIN and there:
        return f"it is on {owner}, and rounds leave it there"
    why = _why_not(state, now, wish, wishes)
    if not why and wish.seq > state.round_seq:
        return f"the next round moves it {'there' if wish.kind == PIN else f'off {owner}'}"
    what = "is not carried out" if wish.kind == PIN else f"does not move it off {owner}"
    target = f", or `ballast explain {wish.broker}`" if wish.kind == PIN else ""
    return f"{what}: {why or f'what the last round decided about the bundle may tell why{target}'}"


def _why_not(state: ClusterState, now: Mapping[str, Any], wish: Override, wishes: Sequence[Override]) -> str:
    """Why no round carries out a pin or an avoidance; empty where nothing is known that keeps one from it."""
    for kind in (EXCLUDE_NAMESPACE, FREEZE):
        if stronger := next((other for other in wishes if other.kind == kind), None):
            return f"{kind} {stronger.id} comes first (`ballast override end {stronger.id}`)"
    pinned = next((other for other in reversed(wishes) if other.kind == PIN and other.id != wish.id), None)
    if pinned is not None and (wish.kind == AVOID or pinned.seq > wish.seq):
        return f"pin {pinned.id} to {pinned.broker} comes first (`ballast override end {pinned.id}`)"
    if now["to"] is not None:
        return f"it is on its way to {now['to']}"
    if now["owner"] is None:
        return "nobody owns it, and rounds move only what has an owner"
    if wish.kind == PIN and (closed := _why_closed(state, wish.broker or "")):
        return closed
    return "" if state.mode == LIVE else f"the mode is {state.mode}, and only `live` carries moves out"


def _why_closed(state: ClusterState, broker: str) -> str:
    """Why the broker takes nothing, by the journal; empty where it may."""
    if state.session_of(broker) is None:
        return f"{broker} is gone"
    record = state.brokers[broker]
    if record.drained:
        return f"{broker} is drained (`ballast undrain {broker}`)"
    return f"{broker} is leaving" if record.leaving else ""
