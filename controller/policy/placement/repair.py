"""Violations of isolation, and their repair.

A namespace was isolated after its bundles were placed, or a secondary broker stood in for a primary that is back.
`steady` and `headroom` repair such placements before anything else, within their budget; a target is filled up to the
overload threshold for it, since isolation comes before balance.

A report names a broker's largest bundles and adds up the rest, so an idle bundle in the wrong place might never be
named. `add_unreported_violations` brings such bundles into the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.placement.isolation import isolation_of
from controller.policy.placement.rules import PlacementState
from controller.policy.view.frame import Frame, Ints
from controller.policy.view.reason_codes import ALLOWED, most_common_reason
from controller.policy.view.snapshot import Snapshot
from controller.policy.view.tabulate import ownership_facts

MOST_FRUITLESS = 16  # bundles without a target that one round tries
MOST_ADDED = 1_000  # by name; a round repairs far fewer
_IN, _OUT = BUNDLE_FIELDS.index("throughput_in"), BUNDLE_FIELDS.index("throughput_out")
Scores = NDArray[np.float64] | Ints


@dataclass(frozen=True, slots=True)
class Repair:
    """What a strategy brings to the repair of placements; scores in its own unit.

    `spent`: whether the budget allows a source no further move. `targets`: for a bundle, the brokers [t] that may take
    something now, and their scores with it. `ceiling`: no target ends above it. `deny`: a source keeps its bundle.
    `move`: make the move of a bundle from source to target in the model, with this reason and evidence.
    """

    spent: Callable[[int], bool]
    targets: Callable[[int], tuple[Ints, Scores]]
    ceiling: float
    deny: Callable[[int, Reason], None]
    move: Callable[[int, int, int, Reason, dict[str, str]], None]


def repair_placements(snapshot: Snapshot, placement_state: PlacementState | None, repair: Repair) -> None:
    """Move every free bundle in violation of isolation, as far as the budget goes.

    First those with an open target, then smaller ones, then by name: where a small one does not fit, a large one does
    not either.
    """
    rules = snapshot.rules
    if rules is None or placement_state is None:
        return
    free = np.flatnonzero(rules.find_violations(snapshot.owner) & (snapshot.bundle_block == ALLOWED))
    open_targets = np.count_nonzero(rules.allowed & rules.open, axis=1)
    without = open_targets[rules.kind[free]] == 0
    traffic = snapshot.fields[free, _IN] + snapshot.fields[free, _OUT]
    fruitless = 0
    for bundle in free[np.lexsort((traffic, without))].tolist():
        fruitless += not _repair_one(snapshot, placement_state, bundle, repair)
        if fruitless >= MOST_FRUITLESS:
            return


def _repair_one(snapshot: Snapshot, placement_state: PlacementState, bundle: int, repair: Repair) -> bool:
    """Whether the bundle could be moved."""
    source = int(snapshot.owner[bundle])
    if repair.spent(source):
        repair.deny(source, Reason.BUDGET_SPENT)
        return False
    target, reason = _choose_target(placement_state, bundle, *repair.targets(bundle), repair.ceiling)
    if target is None:
        repair.deny(source, reason)
        return False
    repair.move(bundle, source, target, reason, {"isolation": placement_state.rules.policy_name(bundle)})
    return True


def _choose_target(
    placement_state: PlacementState, bundle: int, targets: Ints, after: Scores, ceiling: float
) -> tuple[int | None, Reason]:
    """The target that the bundle leaves least loaded, or None with what stands in the way."""
    if not len(targets):
        return None, Reason.NO_TARGET
    codes = placement_state.codes(np.array([bundle]), targets)[0]
    open_ = np.flatnonzero(codes == ALLOWED)
    if not len(open_):
        return None, most_common_reason(codes)
    best = int(open_[np.argmin(after[open_])])
    if after[best] > ceiling:
        return None, Reason.TARGET_ABOVE_MEAN
    return int(targets[best]), Reason.MISPLACED


def add_unreported_violations(state: ClusterState, frame: Frame, settings: PolicySettings) -> Frame:
    """The frame with the bundles in violation that it lacks; the same frame where no isolation is configured."""
    if not settings.placement.isolation:
        return frame
    reported = set(frame.bundles)
    added = sorted(name for name in _list_violations(state, frame, settings) if name not in reported)[:MOST_ADDED]
    if not added:
        return frame
    index = {broker: at for at, broker in enumerate(frame.brokers)}
    return frame.insert({name: ownership_facts(state.bundles[name], index) for name in added})


def _list_violations(state: ClusterState, frame: Frame, settings: PolicySettings) -> list[str]:
    """The bundles that the journal has where isolation forbids them."""
    isolation = isolation_of(settings.placement.isolation)
    available = [broker for broker, there in zip(frame.brokers, frame.in_service.tolist(), strict=True) if there]
    places: dict[int, set[str]] = {}  # by kind of namespace, where its bundles may be
    found = []
    for namespace, bundles in state.namespaces.items():
        kind = isolation.kind_of(namespace)
        if kind not in places:
            places[kind] = {*isolation.allowed(kind, available), *isolation.may_stay(kind, frame.brokers)}
        wrong = state.holdings.spread(namespace).keys() - places[kind]
        if wrong:
            records = ((str(bundle), state.bundles[str(bundle)]) for bundle in bundles)
            found += [name for name, record in records if record.by is not None and record.by.broker in wrong]
    return found
