"""`--grid` with names and units of the configuration: `shedding.overloaded_threshold_pct=80,85`.

Such an axis becomes one of a knob (`shed.overloaded_threshold=0.8,0.85`) by loading each value and reading the knob, so
a value means the same as in the file. The scoreboard shows names and values as they were given, and the configured
value in the same unit.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.backtest.choose.points import format_value
from controller.backtest.point.grid import Value, configured_value, knob_types
from controller.backtest.report.configuration import Load, keys_of
from controller.config.policy_values import policy_settings
from controller.config.settings import DEFINITIONS
from controller.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Named:
    """The axes by knob, and how they were given: `keys`: knob -> key; `words`: (knob, value) -> text."""

    axes: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    words: dict[tuple[str, Value], str] = field(default_factory=dict)


def name_axes(grid: Sequence[str], load: Load) -> Named:
    """Resolve axes. Raises ConfigError for an unknown name, a key that sets no knob, or a value that is not allowed."""
    knobs = knob_types()
    found = Named()
    for text in grid:
        name, equals, listed = (part.strip() for part in text.partition("="))
        if not name or not equals or name in knobs:
            found.axes.append(text)
            continue
        knob = _knob_of(name, knobs)
        found.keys[knob] = name
        values = []
        for word in (one.strip() for one in listed.split(",")):
            value = _read_back(load, name, knob, word)
            found.words[knob, value] = word
            values.append(format_value(value) if isinstance(value, bool) or value is None else repr(value))
        found.axes.append(f"{knob}={','.join(values)}")
        _note_configured(found, load, name, knob)
    return found


def _knob_of(name: str, knobs: Mapping[str, Any]) -> str:
    """The knob that a key sets; of two, Ballast's own."""
    ours_first = sorted(knobs, key=lambda knob: (knob.startswith("pulsar."), knob))
    for knob in ours_first:
        if keys_of(knob)[:1] == [name] and not name.startswith("rounds."):  # rounds are the replay's own
            return knob
    if name in DEFINITIONS:
        raise ConfigError(f"--grid {name}: it cannot be varied in a backtest: no setting of a round follows it")
    words = {key: key for knob in ours_first for key in keys_of(knob)[:1]} | {knob: knob for knob in ours_first}
    bare = {word.rpartition(".")[2]: word for word in reversed(words)}
    near = difflib.get_close_matches(name, [*words, *bare], n=1, cutoff=0.6)
    hint = f"; the nearest is {bare.get(near[0], near[0])}" if near else ""
    raise ConfigError(f"--grid {name}: there is no such knob{hint}")


def _note_configured(found: Named, load: Load, key: str, knob: str) -> None:
    settings = load([])
    section, _, name = key.partition(".")
    value = configured_value(policy_settings(settings), knob)
    found.words.setdefault((knob, value), format_value(getattr(getattr(settings, section), name)))


def _read_back(load: Load, key: str, knob: str, word: str) -> Value:
    found: Any = policy_settings(load([f"{key}={word}"]))
    for part in knob.split("."):
        found = getattr(found, part)
    value: Value = found
    return value
