"""The points of a backtest: every strategy with every combination of the knobs that `--grid` names.

A knob is named as in `PolicySettings`, parts joined by a dot (`steady.tolerance`). Names and types are checked here,
ranges, which are those of the configuration, by the command; both before anything runs. The order of points is that of
the strategies, then of the values as they were given: the same arguments give the same points. Points that differ in
knobs that their strategy never reads come to the same result, so only one of them is run. What is configured now is run
as well, so that whatever is found can be compared with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, get_args, get_type_hints

from controller.domain.errors import BadRecord
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies import get, has, reads

Value = float | int | bool | None
NUMBERS = (float, int, bool)
TRUTH = {"true": True, "false": False}
_WORDS = {float: "a number", int: "a whole number", bool: "true or false", type(None): "none"}


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One strategy with one value for each knob of the grid."""

    strategy: str
    knobs: tuple[tuple[str, Value], ...]

    def effective(self) -> GridPoint:
        """This point without the knobs that its strategy never reads."""
        strategy = get(self.strategy)
        kept = tuple(knob for knob in self.knobs if reads(strategy, knob[0].split(".")[0]))
        return GridPoint(self.strategy, kept)

    def settings(self, base: PolicySettings) -> PolicySettings:
        """The base with this point's strategy and knobs."""
        settings = replace(base, strategy=self.strategy)
        for name, value in self.knobs:
            settings = _with(settings, name.split("."), value)
        return settings


def points_to_run(strategies: Sequence[str], grid: Sequence[str], base: PolicySettings) -> tuple[GridPoint, ...]:
    """The points of the grid that differ, each with the knobs that it reads; before them the configured one if it is
    none of them. Raises as `grid_points`."""
    points = tuple(point.effective() for point in distinct(grid_points(strategies, grid)))
    if not has(base.strategy):  # of a package that is not installed here
        return points
    names = [parse_axis(text)[0] for text in grid]
    configured = GridPoint(base.strategy, tuple((name, configured_value(base, name)) for name in names)).effective()
    return points if configured in points else (configured, *points)


def configured_value(base: PolicySettings, name: str) -> Value:
    """The configured value of a knob by its dotted name; None if there is no such knob (any more)."""
    value: Any = base
    for part in name.split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, int | float) else None


def grid_points(strategies: Sequence[str], grid: Sequence[str]) -> tuple[GridPoint, ...]:
    """All points of `a,b,c` and `knob=value,value` texts. Raises BadRecord, or ConfigError for an unknown strategy."""
    names = tuple(dict.fromkeys(get(name).name for name in strategies))
    if not names:
        raise BadRecord("strategies", "no strategy given: name at least one")
    axes: dict[str, tuple[Value, ...]] = {}
    for text in grid:
        name, values = parse_axis(text)
        if name in axes:
            raise BadRecord("grid", f"{name} is given twice: put all its values into one --grid")
        axes[name] = values
    combinations = list(itertools.product(*axes.values()))
    return tuple(GridPoint(s, tuple(zip(axes, values, strict=True))) for s in names for values in combinations)


def distinct(points: Iterable[GridPoint]) -> list[GridPoint]:
    """Of points that come to the same result the first."""
    found: dict[GridPoint, GridPoint] = {}
    for point in points:
        found.setdefault(point.effective(), point)
    return list(found.values())


def parse_axis(text: str) -> tuple[str, tuple[Value, ...]]:
    """`steady.tolerance=0.03,0.05` as its name and distinct values. Raises BadRecord saying what was wrong."""
    name, equals, listed = text.partition("=")
    name = name.strip()
    if not equals or not name or not listed.strip():
        raise BadRecord("grid", f"{text!r} is not of the form knob=value,value")
    kinds = knob_types()
    if name not in kinds:
        raise BadRecord("grid", f"no numeric setting is named {name!r}; there are {', '.join(sorted(kinds))}")
    values = (_value(name, word.strip(), kinds[name]) for word in listed.split(","))
    return name, tuple(dict.fromkeys(values))


def knob_types() -> dict[str, tuple[type, ...]]:
    """Dotted name -> the types it takes, of every setting that is a number or a switch."""
    return _types(PolicySettings, "")


def _types(kind: type, prefix: str) -> dict[str, tuple[type, ...]]:
    result: dict[str, tuple[type, ...]] = {}
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint) and isinstance(hint, type):
            result |= _types(hint, f"{prefix}{name}.")
            continue
        taken = get_args(hint) or (hint,)
        if all(t in (*NUMBERS, type(None)) for t in taken):
            result[prefix + name] = taken
    return result


def _value(name: str, word: str, kinds: tuple[type, ...]) -> Value:
    lower = word.lower()
    if lower == "none" and type(None) in kinds:
        return None
    if bool in kinds and lower in TRUTH:
        return TRUTH[lower]
    for kind in (int, float):
        if kind in kinds:
            try:
                value = kind(word)
            except ValueError:
                continue
            if math.isfinite(value):
                return value
    wanted = " or ".join(_WORDS[kind] for kind in (float, int, bool, type(None)) if kind in kinds)
    raise BadRecord("grid", f"{name}={word!r} is not {wanted}")


def _with(settings: Any, path: list[str], value: Value) -> Any:
    first, *rest = path
    return replace(settings, **{first: _with(getattr(settings, first), rest, value) if rest else value})
