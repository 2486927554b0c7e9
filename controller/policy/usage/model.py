"""The state of the usage model: what is known of drivers, brokers and bundles, and how well.

A broker's CPU is its base, and for each of its bundles the traffic times the cost of that traffic times a factor of the
bundle's own, all times the broker's speed. `observe.py` changes the estimates round by round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from controller.policy.usage.drivers import Drivers
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints

FACTOR_SPREAD = 0.35  # standard deviation of bundles' factors around 1, before anything is known of them
SPEED_SPREAD = 0.01  # of brokers' speeds
BASE_SPREAD = 0.02  # of brokers' bases around the common one, as a share of their limit
NOISE = 0.03  # of readings of usage, before anything is known of it
NEVER = -1.0
SMALLEST_FACTOR, LARGEST_FACTOR = 0.1, 30.0

_T = TypeVar("_T", "BrokerStates", "BundleStates")


@dataclass(frozen=True, eq=False)
class BrokerStates:
    """[B] each. `speed`: what work costs there, 1 usually. `*_variance`: of the estimates.

    `trend`: of late, how far usage was from what was expected, in standard deviations; near 0 while the model holds.
    `error`: standard deviation of its usage as a whole; `pinned`: how much smaller its variance is than its parts'.
    `passing`: usage beyond what can be chance, until it has lasted; `above`: rounds running of that; `stood`, `burst`,
    `since`: as of bundles; `spikes`: rises that were over at once, each of which counts less with every round. `step`:
    how far the load of its bundles changed in the last round, as a share of the mean usage; NaN unknown. `gave`: CPU
    that bundles which left were thought to take, until its usage tells what they took; `blame`: what that has told, see
    `departed.py`. `surplus_in`, `surplus_out`: bytes/s that its network carries beyond those of its bundles;
    `rising_in`, `rising_out`: rounds running that it carried many more. `reading`: its usage in the last round;
    `read_ms`: when that figure came; `stands`: 1 when a figure came again in a later round, less with each that has not
    since; `changed_ms`, `began_ms`: the last and the first sudden change of what is expected of it that no figure shows
    yet, or NEVER.
    """

    names: tuple[str, ...]
    incarnation: Floats
    base: Floats
    base_variance: Floats
    speed: Floats
    speed_variance: Floats
    trend: Floats
    step: Floats
    pinned: Floats
    error: Floats
    passing: Floats
    above: Floats
    stood: Floats
    burst: Floats
    since: Floats
    spikes: Floats
    gave: Floats
    blame: Floats
    surplus_in: Floats
    surplus_out: Floats
    rising_in: Floats
    rising_out: Floats
    reading: Floats
    read_ms: Floats
    stands: Floats
    changed_ms: Floats
    began_ms: Floats


@dataclass(frozen=True, eq=False)
class BundleStates:
    """[N] each. `usual`: the load that lasts, NEVER before the first round; `above`: rounds running clearly above it,
    or clearly below it as a negative number; `stood`: rounds of a rise that is the usual load by now, up to `LONGEST`;
    `burst`: rounds of the longest burst; `since`: rounds since the last one, or a pause, ended; `often`:
    how many times running the next one came no later than they last; `age`: rounds seen.
    `carried`: the load in the last round, at the broker with the index `carrier`."""

    names: tuple[str, ...]
    factor: Floats
    variance: Floats
    usual: Floats
    above: Floats
    stood: Floats
    burst: Floats
    since: Floats
    often: Floats
    age: Floats
    carried: Floats
    carrier: Floats


_NEW_BROKER = {
    "base": np.nan,  # of a process never heard of; it gets the common one
    "base_variance": np.nan,
    "speed": 1.0,
    "speed_variance": SPEED_SPREAD**2,
    "incarnation": NEVER,
    "step": np.nan,
    "pinned": 1.0,
    "error": np.nan,
    "reading": np.nan,
    "changed_ms": NEVER,
    "began_ms": NEVER,
}
_NEW_BUNDLE = {"factor": 1.0, "variance": FACTOR_SPREAD**2, "usual": NEVER, "carrier": NEVER}


@dataclass(frozen=True, eq=False)
class UsageModel:
    """`drivers`: None before the first usage was seen. `noise`: of a reading, as a share of it."""

    rounds: int = 0
    drivers: Drivers | None = None
    noise: float = NOISE
    wander: float | None = None  # variance of brokers' steps, without what is noise
    brokers: BrokerStates = field(default_factory=lambda: _empty(BrokerStates))
    bundles: BundleStates = field(default_factory=lambda: _empty(BundleStates))

    def aligned(self, brokers: tuple[str, ...], bundles: tuple[str, ...]) -> UsageModel:
        """The model of exactly these brokers and bundles, in this order; new ones are as unknown as can be."""
        if self.brokers.names == brokers and self.bundles.names == bundles:
            return self
        states = _align(self.bundles, bundles, _NEW_BUNDLE)
        place = {name: float(at) for at, name in enumerate(brokers)}
        moved = np.array([*(place.get(name, NEVER) for name in self.brokers.names), NEVER])
        carrier = moved[states.carrier.astype(np.int64)]  # the last one stands for NEVER
        return replace(
            self, brokers=_align(self.brokers, brokers, _NEW_BROKER), bundles=replace(states, carrier=carrier)
        )

    def forget_ended(self, incarnation: Ints) -> UsageModel:
        """Without what is known of processes other than these [B], of the brokers in this order."""
        brokers = self.brokers
        same = brokers.incarnation == incarnation
        columns = {
            name: np.where(same, getattr(brokers, name), _NEW_BROKER.get(name, 0.0))
            for name in name_columns(BrokerStates)
        }
        columns["incarnation"] = incarnation.astype(np.float64)
        return replace(self, brokers=BrokerStates(brokers.names, **columns))


def name_columns(kind: type[BrokerStates] | type[BundleStates]) -> list[str]:
    """The columns of states: their fields without the names."""
    return [column.name for column in fields(kind) if column.name != "names"]


def _empty(kind: type[_T]) -> _T:
    return kind(names=(), **{name: np.zeros(0) for name in name_columns(kind)})


def _align(states: _T, names: tuple[str, ...], new: Mapping[str, float]) -> _T:
    if states.names is names or states.names == names:
        return states
    if not states.names:
        at = np.full(len(names), -1, np.int64)
    else:
        place = _places(states.names)
        at = np.fromiter((place.get(name, -1) for name in names), np.int64, len(names))
    known = at >= 0
    columns = {name: np.broadcast_to(new.get(name, 0.0), len(names)) for name in name_columns(type(states))}
    if known.any():
        for name in columns:
            columns[name] = columns[name].copy()
            columns[name][known] = getattr(states, name)[at[known]]
    return type(states)(names=names, **columns)


@lru_cache(maxsize=4)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    return {name: at for at, name in enumerate(names)}
