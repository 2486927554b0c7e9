"""The strategies by name; part of a round only through `get`. `base` is what a strategy must be."""

from __future__ import annotations

from controller.domain.errors import ConfigError
from controller.policy.strategies.base import Strategy, StrategyOutcome
from controller.policy.strategies.headroom.strategy import Headroom
from controller.policy.strategies.pulsar.average import Average
from controller.policy.strategies.pulsar.overload import Overload
from controller.policy.strategies.pulsar.simple import Simple
from controller.policy.strategies.pulsar.threshold import Threshold
from controller.policy.strategies.pulsar.transfer import Transfer
from controller.policy.strategies.pulsar.uniform import Uniform
from controller.policy.strategies.steady.strategy import Steady
from controller.policy.strategies.weighted.strategy import Weighted

_ALL: tuple[Strategy, ...] = (
    Headroom(), Steady(), Weighted(), Overload(), Threshold(), Uniform(), Average(), Transfer(), Simple(),
)  # fmt: skip
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in _ALL}
ALIASES = {"first": "headroom"}

__all__ = ["STRATEGIES", "Strategy", "StrategyOutcome", "get"]


def get(name: str) -> Strategy:
    """The strategy of that name; raises ConfigError with those there are."""
    found = STRATEGIES.get(ALIASES.get(name, name))
    if found is None:
        raise ConfigError(f"strategy {name!r} is none of {', '.join(sorted([*STRATEGIES, *ALIASES]))}")
    return found
