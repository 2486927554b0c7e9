"""Assertions of scenario files: the figure that each key names, and the text of a failure.

A bound is a value or the name of a strategy; the latter means the figure of the same run with that strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.domain.errors import ConfigError
from controller.policy.strategies import ALIASES, has
from controller.sim.figures import Figures
from controller.sim.ownership.load_cluster import CAUSES
from controller.sim.scenario.parser import Command
from controller.sim.scenario.values import duration_ms, number

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": lambda found, bound: found <= bound,
    "<": lambda found, bound: found < bound,
    ">=": lambda found, bound: found >= bound,
    ">": lambda found, bound: found > bound,
    "==": lambda found, bound: found == bound,
}
Get = Callable[[Figures], float]


def _moves(cause: str) -> Get:
    return lambda figures: figures.moves[cause]


# type -> key -> (the figure, the reader of its bound)
KINDS: Mapping[str, Mapping[str, tuple[Get, Callable[[str], float]]]] = {
    "balance": {
        "max_mean": (lambda f: f.max_mean_end, number),
        "max_best": (lambda f: f.max_best_end, number),
        "max_mean_end_worst": (lambda f: f.max_mean_end_worst, number),
        "min_mean_end_worst": (lambda f: f.min_mean_end_worst, number),
        "max_mean_all": (lambda f: f.max_mean_mean, number),
        "max_best_all": (lambda f: f.max_best_mean, number),
        "max_mean_worst": (lambda f: f.max_mean_worst, number),
        "max_best_worst": (lambda f: f.max_best_worst, number),
    },
    "steady": {"quiet": (lambda f: f.steady_ms, duration_ms)},
    "thrash": {"pct": (lambda f: f.thrash_pct, number)},
    "moves": {
        **{cause: (_moves(cause), number) for cause in CAUSES},
        "total": (lambda f: sum(f.moves.values()), number),
        "repeats": (lambda f: f.repeats, number),
        "splits": (lambda f: f.splits, number),
    },
    "overload": {
        "minutes": (lambda f: f.overload_minutes, number),
        "saturated": (lambda f: f.saturated_minutes, number),
    },
    "unavailability": {
        "bundle_seconds": (lambda f: f.unavailable_bundle_s, number),
        "gap": (lambda f: f.longest_gap_ms, duration_ms),
    },
    "placement": {"misplaced": (lambda f: f.misplaced, number), "domain_gap": (lambda f: f.domain_gap, number)},
    "members": {"brokers": (lambda f: f.brokers, number), "bundles": (lambda f: f.bundles, number)},
}


@dataclass(frozen=True, slots=True)
class Assertion:
    """One bound on one figure."""

    text: str
    get: Get
    op: str
    bound: float | str  # a strategy's name

    def failure(self, figures: Figures, of: Callable[[str], Figures]) -> str | None:
        """The text to print if the bound does not hold. `of`: the figures of the same run with another strategy."""
        found = float(self.get(figures))
        bound = float(self.get(of(self.bound))) if isinstance(self.bound, str) else self.bound
        if _COMPARE[self.op](found, bound):
            return None
        against = f" against {bound:.10g}" if isinstance(self.bound, str) else ""
        return f"FAILED: {self.text}, found {found:.10g}{against}"


def assertions_of(command: Command) -> list[Assertion]:
    """Read `assertion type=balance max_mean<=1.1 …`. Raises ConfigError with file and line."""
    kind = next((a.value for a in command.arguments if a.key == "type"), None)
    if kind is None or kind not in KINDS:
        raise command.error(f"assertion type={kind}: one of {', '.join(KINDS)}")
    if command.words:
        raise command.error(f"assertion takes no {command.words[0]!r}, only type=… and comparisons")
    bounds = [a for a in command.arguments if a.key != "type"]
    if not bounds:
        raise command.error(f"an assertion of type {kind} compares one or more of {', '.join(KINDS[kind])}")
    result = []
    for argument in bounds:
        if argument.key not in KINDS[kind]:
            known = ", ".join(KINDS[kind])
            raise command.error(f"unknown argument {argument.key!r} of an assertion of type {kind}; there are {known}")
        if argument.op not in _COMPARE:
            raise command.error(f"{argument.key}{argument.op}{argument.value}: compare with {', '.join(_COMPARE)}")
        get, read = KINDS[kind][argument.key]
        try:
            named = argument.value in ALIASES or has(argument.value)
            bound = argument.value if named else float(read(argument.value))
        except ConfigError as error:
            raise command.error(f"{argument.key}{argument.op}{argument.value}: {error}") from None
        result.append(Assertion(f"{kind} {argument.key}{argument.op}{argument.value}", get, argument.op, bound))
    return result
