"""Reads arguments of scenario commands as typed values: durations, lists, settings. Unknown arguments are errors."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from controller.domain.errors import ConfigError
from controller.domain.settings.policy import PolicySettings
from controller.sim.scenario.parser import Command

_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m|h)$")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def duration_ms(text: str) -> int:
    """`500ms`, `10s`, `30m`, `1.5h`; a bare 0 is none."""
    if text == "0":
        return 0
    match = _DURATION.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is no duration: a number with ms, s, m or h, such as 10m")
    return round(float(match[1]) * _UNIT_MS[match[2]])


def number(text: str) -> float:
    """A decimal number."""
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ConfigError(f"{text!r} is not finite")
    return value


def whole(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ConfigError(f"{text!r} is no whole number")
    return int(text)


def numbers(text: str) -> tuple[float, ...]:
    """`8,16,32`."""
    return tuple(number(part) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """`b1,b2`."""
    return tuple(text.split(","))


def plain(text: str) -> str:
    """As written."""
    return text


def truth(text: str) -> bool:
    """true or false."""
    if text not in ("true", "false"):
        raise ConfigError(f"{text!r} is neither true nor false")
    return text == "true"


class Reader:
    """Takes the arguments of one command; `check_all_taken` refuses those that were not taken."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._left = {argument.key: argument for argument in command.arguments}
        self._known: list[str] = []
        for argument in command.arguments:
            if argument.op != "=" and command.name != "assertion":
                raise command.error(f"{argument.key}{argument.op}{argument.value}: only an assertion compares, write =")

    def take(self, key: str, read: Callable[[str], Any], default: Any) -> Any:
        """The value of an argument, or the default."""
        self._known.append(key)
        argument = self._left.pop(key, None)
        if argument is None:
            return default
        if argument.op != "=":
            raise self.command.error(f"{key}{argument.op}{argument.value}: {key} is set with =")
        try:
            return read(argument.value)
        except ConfigError as error:
            raise self.command.error(f"{key}={argument.value}: {error}") from None

    def word(self, choices: Mapping[str, object], what: str) -> str:
        """The only word of the command, one of `choices`."""
        words = self.command.words
        if len(words) != 1 or words[0] not in choices:
            given = " ".join(words) or "nothing"
            raise self.command.error(f"{self.command.name} {given}: one of {', '.join(choices)} says {what}")
        return words[0]

    def any_word(self, what: str) -> str:
        """The only word of the command, whatever it is."""
        if len(self.command.words) != 1:
            raise self.command.error(f"{self.command.name} needs one word that {what}")
        return self.command.words[0]

    def no_word(self) -> None:
        """Raise ConfigError if the command has a word."""
        if self.command.words:
            raise self.command.error(f"{self.command.name} takes no {self.command.words[0]!r}, only key=value")

    def remaining(self) -> list[str]:
        """The arguments that were not taken yet, for commands that pass them on."""
        return list(self._left)

    def check_all_taken(self) -> None:
        """Raise ConfigError for the first argument that was not taken."""
        for key in self._left:
            known = ", ".join(self._known) or "none"
            raise self.command.error(f"unknown argument {key!r} of {self.command.name}; there are {known}")

    def fill(self, start: Any, renamed: Mapping[str, str] | None = None) -> Any:
        """A copy of `start` with the given fields; arguments are named like fields, without a suffix `_ms`.

        `renamed`: name of the argument -> name of the field. Raises ConfigError for values that the type refuses.
        """
        hints = typing.get_type_hints(type(start))
        given = {}
        for field in fields(start):
            key = next((k for k, v in (renamed or {}).items() if v == field.name), field.name.removesuffix("_ms"))
            read = duration_ms if field.name.endswith("_ms") else reader_of(hints[field.name])
            given[field.name] = self.take(key, read, getattr(start, field.name))
        try:
            return replace(start, **given)
        except ConfigError as error:
            raise self.command.error(str(error)) from None


def reader_of(kind: Any) -> Callable[[str], Any]:
    """The function that reads a value of this type."""
    simple = {bool: truth, int: whole, float: number, str: plain}
    if kind in simple:
        return simple[kind]
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and inside[0] is float:
        return numbers
    if origin is tuple and inside[0] is str:
        return names
    if origin in (typing.Union, types.UnionType) and type(None) in inside:
        (other,) = [part for part in inside if part is not type(None)]
        return lambda text: None if text == "none" else reader_of(other)(text)
    raise ConfigError(f"a setting of type {kind} cannot be given in a scenario")


def set_policy(policy: PolicySettings, key: str, text: str) -> PolicySettings:
    """Change one policy setting: `strategy`, `shed.overloaded_threshold`, or just a field whose name is unique.

    Raises ConfigError.
    """
    if key in {"grace_period", "shed.grace_period"}:
        return replace(policy, shed=replace(policy.shed, grace_period_ms=duration_ms(text)))
    own = typing.get_type_hints(PolicySettings)
    parts = {name: getattr(policy, name) for name in own if is_dataclass(getattr(policy, name))}
    if key in own and key not in parts:
        return replace(policy, **{key: reader_of(own[key])(text)})
    part, _, name = key.rpartition(".")
    homes = [p for p in parts if (not part or p == part) and any(f.name == name for f in fields(parts[p]))]
    if len(homes) != 1:
        named = f"is in {' and '.join(homes)}: write one of them before a dot" if homes else _nearest(name, parts)
        raise ConfigError(f"{key} {named}")
    home = parts[homes[0]]
    value = reader_of(typing.get_type_hints(type(home))[name])(text)
    return replace(policy, **{homes[0]: replace(home, **{name: value})})


def _nearest(name: str, parts: Mapping[str, Any]) -> str:
    """The text that there is no such setting, with the one that may be meant."""
    places = {field.name: f"{part}.{field.name}" for part, values in parts.items() for field in fields(values)}
    near = difflib.get_close_matches(name, places, n=1)
    return "is no setting of a policy" + (f"; the nearest is {places[near[0]]}" if near else "")
