"""Names, units and values of knobs for people: those of the configuration, or as `--grid` gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.backtest.choose.choose import STEADY
from controller.backtest.choose.points import format_value
from controller.backtest.point.grid import Value
from controller.backtest.report.configuration import key_and_value, keys_of
from controller.config.settings import DEFINITIONS

_UNITS = {"percent": "%", "fraction": ""}
_SUFFIXES = ("_pct", "_points", "_minutes", "_ms", "_mbytes", "_per_s", "_s")  # the unit is shown beside the name


class Heading(NamedTuple):
    """A knob's name in words, its unit (or nothing), and its full name as `--grid` takes it."""

    name: str
    unit: str
    key: str


@dataclass(frozen=True)
class KnobNames:
    """`keys`: knob -> configuration key, `words`: (knob, value) -> text, both as they were given, if they were."""

    keys: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[tuple[str, Value], str] = field(default_factory=dict)

    def heading(self, knob: str) -> Heading:
        """How to head the knob's column."""
        key = self.keys.get(knob) or next(iter(keys_of(knob)), knob)
        definition = DEFINITIONS.get(key)
        if definition is None:
            return Heading(knob, "", knob)
        section, _, name = key.partition(".")
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        words = name.replace("_", " ")
        unit = _UNITS.get(definition.unit, definition.unit)
        return Heading(words if section == STEADY else f"{section}: {words}", unit, key)

    def text(self, knob: str, value: Value) -> str:
        """The value in the unit of the heading."""
        given = self.words.get((knob, value))
        if given is not None:
            return given
        found = key_and_value(knob, value)
        shown = value if found is None or found[0] != self.heading(knob).key else found[1]
        return shown if isinstance(shown, str) else format_value(shown)
