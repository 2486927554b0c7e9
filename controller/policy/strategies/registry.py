"""All strategies by name: Ballast's own, and those that other packages offer (`controller/policy/plugins.py`).

A new strategy of Ballast's own is one more line here. A strategy of another package is checked when its name is first
requested; an invalid one raises a single ConfigError that names package and entry point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from controller.domain.errors import ConfigError, shown
from controller.domain.settings.policy import PolicySettings
from controller.policy.plugins import Plugin, find_plugins
from controller.policy.strategies.base import Strategy, Traits, traits_of
from controller.policy.strategies.headroom import Headroom
from controller.policy.strategies.pulsar.modular_strategies import Average, Overload, Simple, Threshold, Uniform
from controller.policy.strategies.pulsar.transfer import Transfer
from controller.policy.strategies.steady.strategy import Steady
from controller.policy.strategies.weighted.strategy import Weighted

BUILT_IN: tuple[Strategy, ...] = (
    Steady(), Headroom(), Weighted(), Threshold(), Overload(), Uniform(), Average(), Transfer(), Simple(),
)  # fmt: skip
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in BUILT_IN}  # and plug-ins once they are used
ALIASES = {"first": "headroom"}
_TAKEN = frozenset({*STRATEGIES, *ALIASES})
# the parts of the settings that belong to single strategies; all strategies read the others
_OWN_PARTS = frozenset(part for strategy in BUILT_IN for part in traits_of(strategy).knobs or ())
_PARTS = frozenset(part.name for part in fields(PolicySettings) if is_dataclass(part.default_factory))
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def get(name: str) -> Strategy:
    """The strategy of that name or alias.

    Raises ConfigError, which lists the known names or says what is wrong with the package that offers it.
    """
    name_of = ALIASES.get(name, name)
    if name_of not in STRATEGIES:
        plugin = _plugins().get(name)
        if plugin is None:
            raise ConfigError(f"strategy {shown(name)} is none of {', '.join(names())}")
        STRATEGIES[name] = _load(plugin)
    return STRATEGIES[name_of]


def has(name: str) -> bool:
    """Whether there is a usable strategy of that name, aliases aside."""
    try:
        return get(name).name == name
    except ConfigError:
        return False


def names() -> list[str]:
    """Of all strategies, sorted; those of other packages too, whether or not they can be loaded."""
    return sorted({*STRATEGIES, *_plugins()})


def reads(strategy: Strategy, part: str) -> bool:
    """Whether the strategy may read this part of `PolicySettings`, such as `steady` or `shed`."""
    knobs = traits_of(strategy).knobs
    return part not in _OWN_PARTS or knobs is None or part in knobs


def _plugins() -> Mapping[str, Plugin]:
    found = find_plugins()
    taken = min(_TAKEN & found.keys(), default=None)
    if taken is not None:
        raise ConfigError(f"strategy {taken!r} of {found[taken].origin} has the name of Ballast's own: uninstall it")
    return found


def _load(plugin: Plugin) -> Strategy:
    what = f"strategy {plugin.name!r} of {plugin.origin}"
    try:
        found = plugin.load()
        strategy: Strategy = found() if isinstance(found, type) else found
    except Exception as error:  # whatever a package does when it is imported
        raise ConfigError(f"{what} cannot be loaded ({type(error).__name__}: {error}): mend or uninstall it") from error
    faults = _faults(strategy, plugin.name)
    if faults:
        raise ConfigError(f"{what} is no strategy: {'; '.join(faults)} (docs/write_a_strategy.md)")
    return strategy


def _faults(strategy: Any, name: str) -> list[str]:
    """What keeps an object from being the strategy of that name."""
    faults = []
    if not _NAME.fullmatch(name):
        faults.append("its name needs lower-case letters, digits and underscores")
    if getattr(strategy, "name", None) != name:
        faults.append(f"its attribute name is {getattr(strategy, 'name', None)!r}")
    rules = getattr(strategy, "rules", None)
    if type(rules) is not int or rules < 1:
        faults.append(f"rules is {rules!r}, not a number from 1")
    if not callable(getattr(strategy, "decide", None)):
        faults.append("it has no method decide")
    traits = getattr(strategy, "traits", Traits())
    if not isinstance(traits, Traits):
        faults.append(f"traits is {traits!r}, not Traits(…)")
    elif set(traits.knobs or ()) - _PARTS:
        faults.append(f"its knobs are none of {', '.join(sorted(_PARTS))}")
    return faults
