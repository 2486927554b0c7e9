"""What all providers say of one snapshot, as arrays, and how moves change it.

Only providers that know a usage and a limit of somebody are kept: P of them. What is unknown of all forbids nobody.
Loads are conserved: what leaves the source arrives at the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import ConfigError
from controller.domain.settings.weighted import WeightedSettings
from controller.policy.strategies.weighted.providers import LoadAwarenessProvider
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Snapshot

Bools = NDArray[np.bool_]
SPARE = 0.05  # of a limit on what fluctuates: a target that is filled to the brim would be the next source
ROUNDING = 1e-9  # sums of a broker's parts may miss its own figure by as much


class Figures:
    """`names` of the P limits. `usage` and `limit` [B x P]: NaN unknown, and none."""

    def __init__(
        self, snapshot: Snapshot, providers: Iterable[LoadAwarenessProvider], settings: WeightedSettings
    ) -> None:
        self.snapshot = snapshot
        count = len(snapshot.brokers)
        kept: list[tuple[LoadAwarenessProvider, Floats, Floats]] = []
        for provider in providers:
            limit = _told(provider, "limit", count, snapshot, settings)
            limit = np.where(limit > 0, limit, np.nan)
            usage = _told(provider, "usage", count, snapshot)
            if (np.isfinite(limit) & np.isfinite(usage)).any():
                kept.append((provider, usage, limit))
        self._providers = [provider for provider, _, _ in kept]
        self.names = tuple(provider.name for provider in self._providers)
        self.usage: Floats = _columns([usage for _, usage, _ in kept], count)
        self.limit: Floats = _columns([limit for _, _, limit in kept], count)
        spare = np.array([SPARE if provider.fluctuates else 0.0 for provider in self._providers])
        self._full: Floats = self.limit * (1.0 - spare)

    @cached_property
    def part(self) -> Floats:
        """[N x P] what each bundle adds to its broker's; asked for only when somebody must shed."""
        count = len(self.snapshot.bundles)
        parts = [_told(provider, "part", count, self.snapshot) for provider in self._providers]
        return np.maximum(np.nan_to_num(_columns(parts, count)), 0.0)

    def fullness(self) -> Floats:
        """[B x P] usage / limit; 0 where either is unknown."""
        return np.nan_to_num(self.usage / self.limit, nan=0.0)

    def fullest(self) -> Floats:
        """[B] of the limit that each broker has used up most."""
        return np.asarray(np.fmax.reduce(self.usage / self.limit, axis=1, initial=0.0))

    def over(self) -> Bools:
        """[B x P] which limits each broker is over."""
        return np.asarray(self.usage > self.limit * (1.0 + ROUNDING))

    def anyhow_over(self) -> Bools:
        """[B] who is over some limit."""
        return np.asarray(self.over().any(axis=1))

    def excess(self, broker: int, limits: Ints) -> Floats:
        """[len(limits)] how much the broker must lose of each of these to be within it."""
        return np.asarray(self.usage[broker, limits] - self.limit[broker, limits] * (1.0 + ROUNDING))

    def room(self, brokers: Ints) -> Floats:
        """[t x P] what each may still take of everything; no limit: as much as there is; below 0 where it is full."""
        left = self._full[brokers] * (1.0 + ROUNDING) - self.usage[brokers]
        unlimited = np.isnan(self.limit[brokers])
        return np.where(unlimited, np.inf, np.where(np.isnan(left), -np.inf, left))

    def after(self, bundles: Ints, brokers: Ints) -> Floats:
        """[n x t] fullness of each broker's fullest limit with each of the bundles."""
        share = (self.usage[brokers][None, :, :] + self.part[bundles][:, None, :]) / self.limit[brokers][None, :, :]
        return np.asarray(np.fmax.reduce(share, axis=2, initial=0.0))  # fmax: an unknown one is not larger

    def short(self, limits: Ints, brokers: Bools) -> bool:
        """Whether these brokers together have more of one of these than their limits allow: no move can help all."""
        known = brokers[:, None] & np.isfinite(self.usage) & np.isfinite(self.limit)
        used, allowed = np.where(known, self.usage, 0.0).sum(axis=0), np.where(known, self.limit, 0.0).sum(axis=0)
        return bool((used[limits] > allowed[limits]).any())

    def move(self, bundle: int, source: int, target: int) -> None:
        """Take the bundle's parts from the source to the target."""
        self.usage[source] -= self.part[bundle]
        self.usage[target] += self.part[bundle]

    def told(self, broker: int) -> Mapping[str, int]:
        """Permille of each known limit that the broker has used up, for evidence."""
        share = 1000 * self.usage[broker] / self.limit[broker]
        return {name: round(s) for name, s in zip(self.names, share.tolist(), strict=True) if s == s}


def _told(provider: LoadAwarenessProvider, what: str, count: int, *arguments: Any) -> Floats:
    """What a method of the provider gives; raises ConfigError that names both where it is not `count` numbers."""
    kind = f"load awareness provider {type(provider).__module__}.{type(provider).__qualname__}: {what}"
    try:
        values = getattr(provider, what)(*arguments)
    except Exception as error:  # whatever an operator's own class does
        raise ConfigError(f"{kind} failed ({type(error).__name__}: {error})") from error
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{kind} gave no numbers ({error})") from None
    if array.shape != (count,):
        raise ConfigError(f"{kind} gave {array.shape}, not ({count},) numbers")
    return array


def _columns(columns: list[Floats], count: int) -> Floats:
    return np.column_stack(columns) if columns else np.zeros((count, 0))
