"""Operators' overrides in a round: which bundles a strategy must not touch, and which moves the overrides ask for.

Overrides come before every strategy and outside its budget, MOST_MOVES a round: where an override and the balance
disagree, the override wins. Moves go to eligible targets only and leave alone what is under way. The strategy sees them
as done and plans for what is left. `controller.domain.overrides` has the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.overrides import AVOID, EXCLUDE_NAMESPACE, FREEZE, PIN, Override
from controller.policy.decisions import make_skip, make_transfer
from controller.policy.split import range_of
from controller.policy.view.frame import NOBODY, Ints, namespaces_of
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS
from controller.policy.view.snapshot import Bools, Snapshot, utilisation
from controller.policy.what_if import Model

MOST_MOVES = 10
_BLOCKS = {PIN: Reason.PINNED, FREEZE: Reason.FROZEN, EXCLUDE_NAMESPACE: Reason.EXCLUDED}
_STAYS = (CODES[Reason.IN_FLIGHT], CODES[Reason.STALE_DECISION], CODES[Reason.EXCLUDED], CODES[Reason.FROZEN])


def apply_overrides(snapshot: Snapshot) -> tuple[Snapshot, list[Decision]]:
    """The constrained snapshot with what overrides forbid, and the moves that they ask for.

    A move that a rule of placement forbids (a pin to a broker that isolation does not allow) is a skip among them.
    """
    wishes = snapshot.frame.overrides
    if not wishes:
        return snapshot, []
    block = snapshot.bundle_block.copy()
    for kind in (EXCLUDE_NAMESPACE, FREEZE, PIN):  # the strictest comes first and names the reason
        for wish in (w for w in wishes if w.kind == kind):
            concerned = match_override(snapshot, wish)
            block[concerned[~np.isin(block[concerned], _STAYS)]] = CODES[_BLOCKS[kind]]
    snapshot = replace(snapshot, bundle_block=block)
    moves, refused = _choose_moves(snapshot, wishes)
    block[[bundle for _, bundle in moves]] = CODES[Reason.IN_FLIGHT]
    return snapshot, [*(decision for decision, _ in moves), *refused]


def apply_moves(snapshot: Snapshot, wanted: Iterable[Decision]) -> Snapshot:
    """The snapshot with these moves counted as done, like everything under way."""
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    moves = [d for d in wanted if d.kind is DecisionKind.TRANSFER]
    if not moves:
        return snapshot
    model = Model(snapshot)
    for move in moves:
        at = snapshot.place_of(move.bundle or "")
        if at is not None:
            model.move(at, index[move.target or ""])
    return replace(
        snapshot,
        usage=model.usage,
        utilisation=utilisation(model.usage, snapshot.limit),
        score=model.score,
        totals=np.maximum(model.totals, 0.0),
        owner=model.owner,
        rules=None if model.placement_state is None else model.placement_state.to_rules(),
    )


def skip_avoided(snapshot: Snapshot, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """The decisions; a move to a broker that its bundle must avoid becomes a skip."""
    avoided = _avoided(snapshot)
    return tuple(
        make_skip(d, Reason.AVOIDED)
        if d.kind is DecisionKind.TRANSFER and d.target in avoided.get(d.bundle or "", ())
        else d
        for d in decisions
    )


def mark_overridden(snapshot: Snapshot) -> Bools:
    """[N] bundles that overrides may move; their rows are stored for the replay."""
    result = np.zeros(len(snapshot.bundles), bool)
    for wish in snapshot.frame.overrides:
        if wish.kind in (PIN, AVOID):
            result[match_override(snapshot, wish)] = True
    return result


def match_override(snapshot: Snapshot, wish: Override) -> Ints:
    """Indices of the bundles that the override covers."""
    spaces, of_space = namespaces_of(snapshot.bundles)
    if wish.of_namespace not in spaces:
        return np.zeros(0, np.int64)
    within = np.flatnonzero(of_space == spaces.index(wish.of_namespace))
    ranges = ((at, range_of(snapshot.bundles[at])) for at in within.tolist())
    return np.array([at for at, bundle in ranges if bundle is not None and wish.concerns(bundle)], np.int64)


def _avoided(snapshot: Snapshot) -> dict[str, set[str]]:
    """Bundle -> the brokers that it must avoid."""
    result: dict[str, set[str]] = {}
    for wish in snapshot.frame.overrides:
        if wish.kind == AVOID and wish.broker is not None:
            for at in match_override(snapshot, wish).tolist():
                result.setdefault(snapshot.bundles[at], set()).add(wish.broker)
    return result


def _choose_moves(
    snapshot: Snapshot, wishes: tuple[Override, ...]
) -> tuple[list[tuple[Decision, int]], list[Decision]]:
    """Moves with their bundles, by name and up to the limit: to where bundles are pinned, or away from what they avoid.

    With them the skips of pins that rules of placement forbid.
    """
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    pinned = {
        at: index[w.broker]
        for w in wishes
        if w.kind == PIN and w.broker in index
        for at in match_override(snapshot, w).tolist()
    }
    avoided = {at: {index[b] for b in brokers if b in index} for at, brokers in _avoided_by_index(snapshot).items()}
    model = Model(snapshot)
    moves: list[tuple[Decision, int]] = []
    refused: list[Decision] = []
    for at in sorted({*pinned, *avoided}):
        source = int(snapshot.owner[at])
        if len(moves) >= MOST_MOVES or source == NOBODY or snapshot.bundle_block[at] in _STAYS:
            continue
        must_move = pinned[at] != source if at in pinned else source in avoided[at]
        if not must_move:
            continue
        target = pinned.get(at) if at in pinned else _choose_least_loaded(model, at, avoided[at])
        if target is None or snapshot.target_block[target] != ALLOWED:
            continue
        code = ALLOWED if model.placement_state is None else model.placement_state.code(at, target)
        if code == ALLOWED:
            moves.append((_move(model, at, source, target), at))
        else:
            refused.append(_refuse(model, at, source, target, REASONS[code]))
    return moves, refused


def _avoided_by_index(snapshot: Snapshot) -> dict[int, set[str]]:
    avoided = _avoided(snapshot)
    return {at: avoided[name] for at, name in enumerate(snapshot.bundles) if name in avoided} if avoided else {}


def _choose_least_loaded(model: Model, at: int, avoided: set[int]) -> int | None:
    open_ = model.snapshot.target_block == ALLOWED
    open_[[int(model.owner[at]), *avoided]] = False
    if model.placement_state is not None:
        open_ &= model.placement_state.codes(np.array([at]), np.arange(len(open_)))[0] == ALLOWED
    return int(np.argmin(np.where(open_, model.score, np.iinfo(np.int64).max))) if open_.any() else None


def _move(model: Model, at: int, source: int, target: int) -> Decision:
    """The decision, done in the model."""
    before = model.fractions((source, target))
    model.move(at, target)
    return _make_transfer(model, at, (source, target), before, model.fractions((source, target)))


def _refuse(model: Model, at: int, source: int, target: int, reason: Reason) -> Decision:
    unchanged = model.fractions((source, target))
    return make_skip(_make_transfer(model, at, (source, target), unchanged, unchanged), reason)


def _make_transfer(
    model: Model, at: int, ends: tuple[int, int], before: Sequence[float], after: Sequence[float]
) -> Decision:
    return make_transfer(model.snapshot, at, ends, before, after, reason=Reason.OVERRIDDEN, strategy="overrides")
