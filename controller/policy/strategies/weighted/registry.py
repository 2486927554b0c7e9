"""Providers by dotted name. A name that cannot be used stops the start, or the round, with a ConfigError naming it."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

from controller.domain.errors import ConfigError
from controller.domain.settings.weighted import ALL_BUILT_IN, ALL_BUILT_IN_SHORT
from controller.policy.strategies.weighted.providers import BUILT_IN, LoadAwarenessProvider

_METHODS = ("usage", "limit", "part")
_ADVICE = f"give a class as in controller/policy/weighted/providers.py, or {ALL_BUILT_IN} for all built-in ones"


@lru_cache(maxsize=16)
def providers_of(names: tuple[str, ...]) -> tuple[LoadAwarenessProvider, ...]:
    """One of each, in order; all built-in ones for no name. Raises ConfigError for a name that is no provider's."""
    found: dict[str, LoadAwarenessProvider] = {}
    for dotted in names or (ALL_BUILT_IN,):
        for kind in BUILT_IN if dotted in (ALL_BUILT_IN, ALL_BUILT_IN_SHORT) else (_class(dotted),):
            provider = _made(kind, dotted)
            before = found.setdefault(provider.name, provider)
            if type(before) is not type(provider):
                kinds = f"{type(before).__qualname__} and {dotted}"
                raise ConfigError(f"load awareness providers {kinds} are both called {provider.name!r}: leave one out")
    return tuple(found.values())


def _class(dotted: str) -> type[Any]:
    module, _, name = dotted.rpartition(".")
    if not module:
        raise ConfigError(f"load awareness provider {dotted!r} is no dotted name of a class: {_ADVICE}")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever a module does when it is imported
        raise ConfigError(f"load awareness provider {dotted!r} cannot be imported ({error}): {_ADVICE}") from None
    if not isinstance(found, type):
        raise ConfigError(f"load awareness provider {dotted!r} is no class: {_ADVICE}")
    return found


def _made(kind: type[Any], dotted: str) -> LoadAwarenessProvider:
    try:
        provider = kind()
    except Exception as error:
        raise ConfigError(f"load awareness provider {dotted!r} cannot be made ({error}): {_ADVICE}") from None
    lacking = [name for name in _METHODS if not callable(getattr(provider, name, None))]
    lacking += [n for n, t in (("name", str), ("fluctuates", bool)) if not isinstance(getattr(provider, n, None), t)]
    if lacking:
        raise ConfigError(f"load awareness provider {dotted!r} lacks {', '.join(lacking)}: {_ADVICE}")
    return provider  # type: ignore[no-any-return]  # it has all that the protocol asks for
