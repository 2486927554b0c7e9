"""Whether load has shifted so far since the last round that the next one should not wait for its time.

Traffic tells, not readings of usage: it is counted, shows a change at once, and no noise makes it jump. A shift counts
once it has lasted, and between processes that were there before: who joins or leaves is no shift.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from controller.domain.load import BUNDLE_FIELDS
from controller.policy.usage.drivers import DRIVER_COLUMNS
from controller.policy.usage.model import UsageModel
from controller.policy.usage.seen import sum_by, weigh
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.tabulate import Columns

FAR = 0.3  # of the level: who is less far above it can wait for the next round
GROWN = 0.1  # of the level, since the last round
LEAST_LEVEL = 0.3  # of the limits: shifts in a nearly idle cluster are measured against this
_FIELDS = [BUNDLE_FIELDS[at] for at in DRIVER_COLUMNS]


class Work(NamedTuple):
    """CPU that a process needs for its traffic, and its limit."""

    used: float
    limit: float


class Shift(NamedTuple):
    """How far above the level a broker was in the last round, and is now; as shares of the level."""

    broker: str
    before: float
    now: float

    def to_json(self) -> dict[str, Any]:
        """As the journal has it."""
        now, before = (round(100 * above) for above in (self.now, self.before))
        return {"shifted_to": self.broker, "above_pct": now, "before_pct": before}


Works = Mapping[tuple[str, int], Work]  # by broker and incarnation


def work_of(model: UsageModel, brokers: Columns) -> Works:
    """What each process needs for the traffic of a window. `brokers`: its averages (`ledger.loads.average_brokers`).
    Empty while nobody knows what traffic costs."""
    if model.drivers is None:
        return {}
    unit, states, dearer = model.drivers.unit, model.brokers, _dearer(model)
    place = {name: at for at, name in enumerate(states.names)}
    traffic = np.column_stack([np.nan_to_num(np.asarray(brokers[name], np.float64)) for name in _FIELDS])
    cost, limit = weigh(traffic, unit), np.asarray(brokers["cpu_limit"], np.float64)
    found = {}
    for row, key in enumerate(zip(brokers["broker"].tolist(), brokers["incarnation"].tolist(), strict=True)):
        at = place.get(key[0])
        if at is not None and limit[row] > 0:  # NaN: not known
            base, speed = float(np.nan_to_num(states.base[at])), float(states.speed[at] * dearer[at])
            found[key] = Work(base + speed * float(cost[row]), float(limit[row]))
    return found


def _dearer(model: UsageModel) -> Floats:
    """[B] how many times the usual a broker's traffic costs, as its bundles of the last round are known to."""
    bundles, count = model.bundles, len(model.brokers.names)
    there = np.flatnonzero(bundles.carrier >= 0)
    carrier: Ints = bundles.carrier[there].astype(np.int64)
    usual = sum_by(carrier, bundles.carried[there], count)
    known = sum_by(carrier, bundles.carried[there] * bundles.factor[there], count)
    return np.where(usual > 0, known / np.where(usual > 0, usual, 1.0), 1.0)


def find_shift(
    before: Works, since: Sequence[Works], absent: Collection[str] = (), except_for: Collection[str] = ()
) -> Shift | None:
    """The broker that is far above the level in each of these windows, and by more than in the last round; the
    farthest of several. `absent`: brokers that share nothing now; `except_for`: those that are not looked for."""
    common = set(before).intersection(*since) if since else set()
    common = {key for key in common if key[0] not in absent}
    if len(common) < 2:
        return None
    limits = {key: since[-1][key].limit for key in common}  # one that has changed makes no shift
    was = _deviations(before, limits)
    now = [_deviations(window, limits) for window in since]
    found = [Shift(key[0], was[key], min(window[key] for window in now)) for key in sorted(common)]
    shifts = [one for one in found if one.now >= FAR and one.now - one.before >= GROWN and one.broker not in except_for]
    return max(shifts, key=lambda one: one.now, default=None)


def _deviations(works: Works, limits: Mapping[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    level = sum(works[key].used for key in limits) / sum(limits.values())
    return {key: (works[key].used / limit - level) / max(level, LEAST_LEVEL) for key, limit in limits.items()}
