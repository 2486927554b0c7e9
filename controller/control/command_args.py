"""Reads the arguments of a command; the text of a BadRecord becomes the reason of its rejection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.domain.errors import BadRecord, shown
from controller.domain.events import Command
from controller.domain.strict_json import WHOLE_END, is_whole

Effect = Callable[[], Any]
MAX_TEXT = 512


@dataclass(frozen=True, slots=True)
class InPart:
    """An effect that carries out a part of what was asked; `rest` says what is left as it is, for the answer."""

    effect: Effect
    rest: str

    def __call__(self) -> None:
        self.effect()


def all_but_there(effect: Effect, namespace: str, target: str | None, there: int, elsewhere: int) -> Effect:
    """The effect of an unload of a namespace, told that `there` of its owned bundles are at the target already and
    `elsewhere` are not. Raises BadRecord if there is nothing to move."""
    if not there + elsewhere:
        raise BadRecord("namespace", f"no bundle of {namespace} is owned now: try again when they are")
    if not elsewhere:
        raise BadRecord("to", f"every owned bundle of {namespace} is at {target} already")
    if not there:
        return effect
    owned = f"{there} of the {there + elsewhere} owned bundles of {namespace}"
    return InPart(effect, f"{target} owns {owned} already: what is there stays")


def text_of(command: Command, key: str) -> str:
    """An argument as printable text of at most MAX_TEXT characters. Raises BadRecord."""
    value = command.args.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise BadRecord(key, f"{command.kind} needs {key} as printable text, got {shown(value)}")
    return value


def number_of(command: Command, key: str, default: int) -> int:
    """An argument as a whole number, or the default when it is absent. Raises BadRecord."""
    value = command.args.get(key)
    if value is None:
        return default
    if not is_whole(value, 1 - WHOLE_END):
        raise BadRecord(key, f"{command.kind} needs {key} as a whole number below 2^53, got {shown(value)}")
    return value
