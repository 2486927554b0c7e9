"""The configured providers, found by dotted name, and their figures of one snapshot as arrays that moves change.

A provider may be an operator's own class: whatever it does wrong is a ConfigError that names it, at the start or in the
round. Only providers that know a usage and a limit of some broker are kept: P of them. What is unknown of all brokers
forbids nothing. Loads are conserved: what leaves the source arrives at the target.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from controller.domain.errors import ConfigError, label, shown
from controller.domain.settings.weighted import ALL_BUILT_IN, ALL_BUILT_IN_SHORT, WeightedSettings
from controller.policy.strategies.weighted.providers import BUILT_IN, LoadAwarenessProvider
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Bools, Snapshot

SPARE = 0.05  # of a limit on what fluctuates: a target that is filled to the brim would be the next source
ROUNDING = 1e-9  # sums of a broker's parts may miss its own figure by as much
_METHODS = ("usage", "limit", "part")
_ADVICE = f"give a class as in controller/policy/weighted/providers.py, or {ALL_BUILT_IN} for all built-in ones"


@lru_cache(maxsize=16)
def providers_of(names: tuple[str, ...]) -> tuple[LoadAwarenessProvider, ...]:
    """One of each class, in order; all built-in ones where no name is given. Raises ConfigError for an unusable one."""
    found: dict[str, LoadAwarenessProvider] = {}
    for dotted in names or (ALL_BUILT_IN,):
        for kind in BUILT_IN if dotted in (ALL_BUILT_IN, ALL_BUILT_IN_SHORT) else (_find_class(dotted),):
            provider = _make(kind, dotted)
            before = found.setdefault(provider.name, provider)
            if type(before) is not type(provider):
                kinds = f"{type(before).__qualname__} and {dotted}"
                raise ConfigError(f"load awareness providers {kinds} are both called {provider.name!r}: leave one out")
    return tuple(found.values())


class Figures:
    """`names` of the P limits. `usage` and `limit` [B x P]: NaN unknown, and none."""

    def __init__(
        self, snapshot: Snapshot, providers: Iterable[LoadAwarenessProvider], settings: WeightedSettings
    ) -> None:
        self.snapshot = snapshot
        count = len(snapshot.brokers)
        kept: list[tuple[LoadAwarenessProvider, Floats, Floats]] = []
        for provider in providers:
            limit = _ask(provider, "limit", count, snapshot, settings)
            limit = np.where(limit > 0, limit, np.nan)
            usage = _ask(provider, "usage", count, snapshot)
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
        """[N x P] what each bundle adds to its broker's; computed only when a broker must shed."""
        count = len(self.snapshot.bundles)
        parts = [_ask(provider, "part", count, self.snapshot) for provider in self._providers]
        return np.maximum(np.nan_to_num(_columns(parts, count)), 0.0)

    def fullness(self) -> Floats:
        """[B x P] usage / limit; 0 where either is unknown."""
        return np.nan_to_num(self.usage / self.limit, nan=0.0)

    def fullest(self) -> Floats:
        """[B] of the limit that each broker has used up most."""
        return np.asarray(np.fmax.reduce(self.usage / self.limit, axis=1, initial=0.0))

    def over(self) -> Bools:
        """[B x P] the limits that each broker is over."""
        return np.asarray(self.usage > self.limit * (1.0 + ROUNDING))

    def over_any(self) -> Bools:
        """[B] whether the broker is over any limit."""
        return np.asarray(self.over().any(axis=1))

    def excess(self, broker: int, limits: Ints) -> Floats:
        """[len(limits)] how much the broker must lose to be within each of these limits."""
        return np.asarray(self.usage[broker, limits] - self.limit[broker, limits] * (1.0 + ROUNDING))

    def remaining(self, brokers: Ints) -> Floats:
        """[t x P] what each broker may still take of everything: inf without a limit, below 0 where it is full."""
        left = self._full[brokers] * (1.0 + ROUNDING) - self.usage[brokers]
        unlimited = np.isnan(self.limit[brokers])
        return np.where(unlimited, np.inf, np.where(np.isnan(left), -np.inf, left))

    def after(self, bundles: Ints, brokers: Ints) -> Floats:
        """[n x t] fullness of each broker's fullest limit with each of the bundles."""
        share = (self.usage[brokers][None, :, :] + self.part[bundles][:, None, :]) / self.limit[brokers][None, :, :]
        return np.asarray(np.fmax.reduce(share, axis=2, initial=0.0))  # fmax: an unknown one is not larger

    def short(self, limits: Ints, brokers: Bools) -> bool:
        """Whether these brokers together use more than one of these limits allows them: no move can help all."""
        known = brokers[:, None] & np.isfinite(self.usage) & np.isfinite(self.limit)
        used, allowed = np.where(known, self.usage, 0.0).sum(axis=0), np.where(known, self.limit, 0.0).sum(axis=0)
        return bool((used[limits] > allowed[limits]).any())

    def move(self, bundle: int, source: int, target: int) -> None:
        """Take the bundle's parts from the source to the target."""
        self.usage[source] -= self.part[bundle]
        self.usage[target] += self.part[bundle]

    def permille(self, broker: int) -> Mapping[str, int]:
        """Permille of each known limit that the broker has used up, for evidence."""
        share = 1000 * self.usage[broker] / self.limit[broker]
        return {name: round(s) for name, s in zip(self.names, share.tolist(), strict=True) if s == s}


def _find_class(dotted: str) -> type[Any]:
    module, _, name = dotted.rpartition(".")
    if not module:
        raise ConfigError(f"load awareness provider {shown(dotted)} is no dotted name of a class: {_ADVICE}")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever a module does when it is imported
        why = f"cannot be imported ({label(str(error))})"
        raise ConfigError(f"load awareness provider {shown(dotted)} {why}: {_ADVICE}") from None
    if not isinstance(found, type):
        raise ConfigError(f"load awareness provider {shown(dotted)} is no class: {_ADVICE}")
    return found


def _make(kind: type[Any], dotted: str) -> LoadAwarenessProvider:
    try:
        provider = kind()
    except Exception as error:
        raise ConfigError(f"load awareness provider {dotted!r} cannot be made ({error}): {_ADVICE}") from None
    lacking = [name for name in _METHODS if not callable(getattr(provider, name, None))]
    lacking += [n for n, t in (("name", str), ("fluctuates", bool)) if not isinstance(getattr(provider, n, None), t)]
    if lacking:
        raise ConfigError(f"load awareness provider {dotted!r} lacks {', '.join(lacking)}: {_ADVICE}")
    return provider  # type: ignore[no-any-return]  # it has all that the protocol asks for


def _ask(provider: LoadAwarenessProvider, what: str, count: int, *arguments: Any) -> Floats:
    """What a method of the provider returns. Raises ConfigError naming both unless that is `count` numbers."""
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
