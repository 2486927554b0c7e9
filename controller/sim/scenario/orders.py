"""Operators' commands in a scenario: real commands for the real step, at given times. A rejection ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.domain.errors import ConfigError
from controller.domain.events import COMMAND_KINDS


@dataclass(frozen=True, slots=True)
class Order:
    """A command with its arguments, as `ballast` would send it."""

    kind: str
    at_ms: int
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in COMMAND_KINDS:
            raise ConfigError(f"operator {self.kind!r} is none of {', '.join(sorted(COMMAND_KINDS))}")


def value_of(text: str) -> object:
    """Parse true, false, a whole number or a list in square brackets; anything else stays a text."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("[") and text.endswith("]"):
        return [part for part in text[1:-1].split(",") if part]
    return int(text) if text.isdecimal() else text
