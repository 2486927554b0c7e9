"""Shapes: how load changes over time, one class each. A shape becomes a function of time for the groups of a workload.

A shape draws all its random numbers once, in `series`, and returns a pure function of the time since the start in ms
that gives a factor for every group. `by` says what changes together: every bundle alone, or all bundles of a tenant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Series = Callable[[int], Floats]

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
BUNDLE, TENANT = "bundle", "tenant"


@dataclass(frozen=True, eq=False)
class World:
    """The groups that a shape is drawn for."""

    groups: int
    tenant: Ints  # [groups]
    duration_ms: int

    def spread(self, by: str, values_a_tenant: Callable[[int], Floats]) -> Floats:
        """[... x groups]: values drawn per bundle, or per tenant and given to all its bundles."""
        if by == BUNDLE:
            return values_a_tenant(self.groups)
        if by == TENANT:
            return values_a_tenant(int(self.tenant.max()) + 1)[..., self.tenant]
        raise ConfigError(f"by={by!r} is neither {BUNDLE} nor {TENANT}")


class Shape(Protocol):
    """A change of the load over time."""

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """The factor of every group as a function of the time in ms."""
        ...


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A day: 1 + amplitude * sin, each tenant (or bundle) shifted by up to `spread` of a period."""

    amplitude: float = 0.5
    period_ms: int = HOUR_MS
    spread: float = 0.5
    by: str = TENANT

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """See Shape."""
        phase = world.spread(self.by, lambda count: dice.uniform(0.0, self.spread, count))
        return lambda time_ms: 1.0 + self.amplitude * np.sin(2 * np.pi * (time_ms / self.period_ms + phase))


@dataclass(frozen=True, slots=True)
class Periodic:
    """A job: a share of the groups carries `factor` times as much for `on_ms` of every `every_ms`."""

    share: float = 1 / 6
    factor: float = 2.2
    on_ms: int = 3 * MINUTE_MS
    every_ms: int = 12 * MINUTE_MS
    by: str = BUNDLE

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """See Shape."""
        chosen = world.spread(self.by, lambda count: _choose_some(dice, count, self.share))
        return lambda time_ms: 1.0 + chosen * ((self.factor - 1.0) * (time_ms % self.every_ms < self.on_ms))


@dataclass(frozen=True, slots=True)
class Spike:
    """Some groups (or tenants) carry `factor` times as much from `at_ms` on, for `for_ms` (0: until the end)."""

    count: int = 3
    factor: float = 8.0
    at_ms: int = 0
    for_ms: int = 0
    by: str = BUNDLE

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """See Shape."""
        chosen = world.spread(self.by, lambda count: _choose_some(dice, count, min(self.count, count) / count))
        end_ms = self.at_ms + self.for_ms if self.for_ms else world.duration_ms + 1
        return lambda time_ms: 1.0 + chosen * ((self.factor - 1.0) * (self.at_ms <= time_ms < end_ms))


@dataclass(frozen=True, slots=True)
class Drift:
    """A random walk of the logarithm: after an hour its standard deviation is `per_hour`."""

    per_hour: float = 0.5
    by: str = BUNDLE

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """See Shape."""
        knots = world.duration_ms // MINUTE_MS + 2
        step = self.per_hour * np.sqrt(MINUTE_MS / HOUR_MS)
        walk = world.spread(self.by, lambda count: np.cumsum(step * dice.standard_normal((knots, count)), axis=0))
        return _interpolate(np.exp(walk - walk[0]))


@dataclass(frozen=True, slots=True)
class Growth:
    """A share of the groups grows each hour by `per_hour` of its initial load (0.5: by half after an hour)."""

    per_hour: float = 0.5
    share: float = 1.0
    by: str = BUNDLE

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """See Shape."""
        chosen = world.spread(self.by, lambda count: _choose_some(dice, count, self.share))
        return lambda time_ms: 1.0 + chosen * (self.per_hour * time_ms / HOUR_MS)


@dataclass(frozen=True, slots=True)
class Jitter:
    """Calm load: a new factor between 1 - amplitude and 1 + amplitude every minute."""

    amplitude: float = 0.05
    by: str = BUNDLE

    def series(self, world: World, dice: np.random.Generator) -> Series:
        """See Shape."""
        knots = world.duration_ms // MINUTE_MS + 2
        low, high = 1.0 - self.amplitude, 1.0 + self.amplitude
        return _interpolate(world.spread(self.by, lambda count: dice.uniform(low, high, (knots, count))))


SHAPES: dict[str, type[Shape]] = {
    "diurnal": Diurnal, "periodic": Periodic, "spike": Spike, "drift": Drift, "growth": Growth, "jitter": Jitter,
}  # fmt: skip


def _choose_some(dice: np.random.Generator, count: int, share: float) -> Floats:
    """1 for a random share of `count` items, 0 for the others."""
    result = np.zeros(count)
    result[dice.permutation(count)[: round(count * share)]] = 1.0
    return result


def _interpolate(knots: Floats) -> Series:
    """Interpolate linearly between values at full minutes."""

    def at(time_ms: int) -> Floats:
        minute, rest = divmod(time_ms, MINUTE_MS)
        minute = min(minute, len(knots) - 2)
        part = rest / MINUTE_MS
        return np.asarray((1.0 - part) * knots[minute] + part * knots[minute + 1])

    return at
