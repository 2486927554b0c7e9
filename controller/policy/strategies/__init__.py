"""The strategies by name. One file each; part of a round only through `get`."""

from __future__ import annotations

from controller.domain.errors import ConfigError
from controller.policy.strategies.base import Strategy, StrategyOutcome
from controller.policy.strategies.headroom import Headroom
from controller.policy.strategies.steady import Steady

STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in (Headroom(), Steady())}
ALIASES = {"first": "headroom"}

__all__ = ["STRATEGIES", "Strategy", "StrategyOutcome", "get"]


def get(name: str) -> Strategy:
    """The strategy of that name; raises ConfigError with those there are."""
    found = STRATEGIES.get(ALIASES.get(name, name))
    if found is None:
        raise ConfigError(f"strategy {name!r} is none of {', '.join(sorted([*STRATEGIES, *ALIASES]))}")
    return found
