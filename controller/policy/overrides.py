"""Operators' overrides in a round: which bundles a strategy may not touch, and what the overrides themselves move.

They come before every strategy and outside its budget, MOST_MOVES a round: where a wish and a balance disagree, the
wish wins. Only eligible targets are used, and nothing that is under way. What they move is done for the strategy, which
plans for what is left. `controller.domain.overrides` has the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.overrides import AVOID, EXCLUDE_NAMESPACE, FREEZE, PIN, Override
from controller.policy.limits.pacing import skipped
from controller.policy.split import range_of
from controller.policy.transfer_decision import transfer_decision
from controller.policy.view.frame import NOBODY, Ints, namespaces_of
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS
from controller.policy.view.snapshot import Snapshot, utilisation
from controller.policy.what_if import Model

MOST_MOVES = 10
_BLOCKS = {PIN: Reason.PINNED, FREEZE: Reason.FROZEN, EXCLUDE_NAMESPACE: Reason.EXCLUDED}
_STAYS = (CODES[Reason.IN_FLIGHT], CODES[Reason.STALE_DECISION], CODES[Reason.EXCLUDED], CODES[Reason.FROZEN])


def apply_overrides(snapshot: Snapshot) -> tuple[Snapshot, list[Decision]]:
    """The snapshot with what overrides forbid, and the moves they ask for; needs constraints to be filled in.

    A move that a rule of placement forbids (a pin to a broker where isolation does not allow it) is a skip among them.
    """
    wishes = snapshot.frame.overrides
    if not wishes:
        return snapshot, []
    block = snapshot.bundle_block.copy()
    for kind in (EXCLUDE_NAMESPACE, FREEZE, PIN):  # what forbids the most names the reason
        for wish in (w for w in wishes if w.kind == kind):
            concerned = concerned_by(snapshot, wish)
            unsaid = concerned[~np.isin(block[concerned], _STAYS)]
            block[unsaid] = CODES[_BLOCKS[kind]]
    snapshot = replace(snapshot, bundle_block=block)
    moves, refused = _wanted_moves(snapshot, wishes)
    block[[bundle for _, bundle in moves]] = CODES[Reason.IN_FLIGHT]
    return snapshot, [*(decision for decision, _ in moves), *refused]


def with_done(snapshot: Snapshot, wanted: Iterable[Decision]) -> Snapshot:
    """The snapshot with the moves that overrides ask for counted as done, like all that is under way."""
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
        rules=None if model.tally is None else model.tally.counted(),
    )


def without_avoided(snapshot: Snapshot, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """The decisions; a move to a broker that its bundle should avoid becomes a skip."""
    avoided = _avoided(snapshot)
    return tuple(
        skipped(d, Reason.AVOIDED)
        if d.kind is DecisionKind.TRANSFER and d.target in avoided.get(d.bundle or "", ())
        else d
        for d in decisions
    )


def looked_into(snapshot: Snapshot) -> NDArray[np.bool_]:
    """[N] whose rows the moves of overrides hung on; they are stored for the replay."""
    result = np.zeros(len(snapshot.bundles), bool)
    for wish in snapshot.frame.overrides:
        if wish.kind in (PIN, AVOID):
            result[concerned_by(snapshot, wish)] = True
    return result


def concerned_by(snapshot: Snapshot, wish: Override) -> Ints:
    """Indices of the bundles that the override concerns."""
    spaces, of_space = namespaces_of(snapshot.bundles)
    if wish.of_namespace not in spaces:
        return np.zeros(0, np.int64)
    within = np.flatnonzero(of_space == spaces.index(wish.of_namespace))
    ranges = ((at, range_of(snapshot.bundles[at])) for at in within.tolist())
    return np.array([at for at, bundle in ranges if bundle is not None and wish.concerns(bundle)], np.int64)


def _avoided(snapshot: Snapshot) -> dict[str, set[str]]:
    """Bundle -> the brokers it should avoid."""
    result: dict[str, set[str]] = {}
    for wish in snapshot.frame.overrides:
        if wish.kind == AVOID and wish.broker is not None:
            for at in concerned_by(snapshot, wish).tolist():
                result.setdefault(snapshot.bundles[at], set()).add(wish.broker)
    return result


def _wanted_moves(
    snapshot: Snapshot, wishes: tuple[Override, ...]
) -> tuple[list[tuple[Decision, int]], list[Decision]]:
    """Home to where bundles are pinned, and away from where they should not be; by name, as far as the limit goes.
    With them the skips of pins that rules of placement forbid."""
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    pinned = {
        at: index[w.broker]
        for w in wishes
        if w.kind == PIN and w.broker in index
        for at in concerned_by(snapshot, w).tolist()
    }
    avoided = {at: {index[b] for b in brokers if b in index} for at, brokers in _by_index(snapshot).items()}
    model = Model(snapshot)
    moves: list[tuple[Decision, int]] = []
    refused: list[Decision] = []
    for at in sorted({*pinned, *avoided}):
        owner = int(snapshot.owner[at])
        if len(moves) >= MOST_MOVES or owner == NOBODY or snapshot.bundle_block[at] in _STAYS:
            continue
        misplaced = pinned[at] != owner if at in pinned else owner in avoided[at]
        if not misplaced:
            continue
        target = pinned.get(at) if at in pinned else _least_loaded(model, at, avoided[at])
        if target is None or snapshot.target_block[target] != ALLOWED:
            continue
        code = ALLOWED if model.tally is None else model.tally.code(at, target)
        if code == ALLOWED:
            moves.append((_move(model, at, target), at))
        else:
            refused.append(_refused(model, at, (owner, target), REASONS[code]))
    return moves, refused


def _by_index(snapshot: Snapshot) -> dict[int, set[str]]:
    avoided = _avoided(snapshot)
    return {at: avoided[name] for at, name in enumerate(snapshot.bundles) if name in avoided} if avoided else {}


def _least_loaded(model: Model, at: int, avoided: set[int]) -> int | None:
    open_ = model.snapshot.target_block == ALLOWED
    open_[[int(model.owner[at]), *avoided]] = False
    if model.tally is not None:
        open_ &= model.tally.codes(np.array([at]), np.arange(len(open_)))[0] == ALLOWED
    return int(np.argmin(np.where(open_, model.score, np.iinfo(np.int64).max))) if open_.any() else None


def _move(model: Model, at: int, target: int) -> Decision:
    """The decision, done in the model."""
    way = int(model.owner[at]), target
    before = model.fractions(way)
    model.move(at, target)
    return _decision(model, at, way, (before, model.fractions(way)))


def _refused(model: Model, at: int, way: tuple[int, int], reason: Reason) -> Decision:
    unchanged = model.fractions(way)
    return skipped(_decision(model, at, way, (unchanged, unchanged)), reason)


def _decision(model: Model, at: int, way: tuple[int, int], scores: tuple[Sequence[float], Sequence[float]]) -> Decision:
    return transfer_decision(model.snapshot, at, way, *scores, reason=Reason.OVERRIDDEN, strategy="overrides")
