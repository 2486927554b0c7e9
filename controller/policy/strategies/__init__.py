"""Strategies: a snapshot in, decisions with evidence out. A round gets them by name, from `registry`.

`base` is what a strategy must be, `decision_log` what most of them write down. Each has a room, or a file, of its own:
a new one is that and a line in `registry`; a strategy of another package needs neither.
"""

from __future__ import annotations

from controller.policy.strategies.base import Strategy, StrategyOutcome, Traits, score_rows, traits_of
from controller.policy.strategies.decision_log import DecisionLog
from controller.policy.strategies.registry import ALIASES, STRATEGIES, get, has, names, reads

__all__ = [
    "ALIASES",
    "STRATEGIES",
    "DecisionLog",
    "Strategy",
    "StrategyOutcome",
    "Traits",
    "get",
    "has",
    "names",
    "reads",
    "score_rows",
    "traits_of",
]
