"""Parses the text of scenario files into commands, and writes it with new results. Knows the form, not the meaning.

A line is empty, a comment (`#`) or a command: a name, words and arguments `key=value` (in assertions also with <=, <,
>=, > or ==). A line `----` after a command starts its printed result, which ends at the first empty line or at the end
of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from controller.domain.errors import ConfigError

RULER = "----"
_ARGUMENT = re.compile(r"^([A-Za-z_][A-Za-z0-9_.]*)(<=|>=|==|=|<|>)(.*)$")


@dataclass(frozen=True, slots=True)
class Argument:
    """`key op value` as written."""

    key: str
    op: str
    value: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command, its place, and its expected result (None if the file has none)."""

    place: str  # file:line
    name: str
    words: tuple[str, ...]
    arguments: tuple[Argument, ...]
    expected: str | None
    line: int  # of the command, from 0
    result_lines: tuple[int, int] = field(default=(0, 0))  # [from, to) of the result with its ruler

    def error(self, text: str) -> ConfigError:
        """An error in this command."""
        return ConfigError(f"{self.place}: {text}")


def parse(text: str, name: str) -> list[Command]:
    """The commands of a file. Raises ConfigError with file and line for anything malformed."""
    lines = text.splitlines()
    commands = []
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if not line or line.startswith("#"):
            at += 1
            continue
        if line == RULER:
            raise ConfigError(f"{name}:{at + 1}: a result without a command in the line above it")
        end = _result_end(lines, at + 1)
        commands.append(_command(lines, at, end, name))
        at = end
    return commands


def with_results(text: str, commands: Sequence[Command], results: Sequence[str | None]) -> str:
    """The text with new results of these commands; None for a command that prints nothing."""
    lines = text.splitlines()
    for command, result in reversed(list(zip(commands, results, strict=True))):
        first, last = command.result_lines
        lines[first:last] = [] if result is None else [RULER, *result.splitlines()]
        following = first if result is None else first + 1 + len(result.splitlines())
        if result is not None and following < len(lines) and lines[following].strip():
            lines.insert(following, "")
    return "\n".join(lines) + "\n"


def _result_end(lines: list[str], at: int) -> int:
    """The line after the result that begins at `at`; `at` itself if there is none."""
    if at >= len(lines) or lines[at].strip() != RULER:
        return at
    while at < len(lines) and lines[at].strip():
        at += 1
    return at


def _command(lines: list[str], at: int, end: int, name: str) -> Command:
    place = f"{name}:{at + 1}"
    first, *rest = _fields(lines[at])
    if _ARGUMENT.match(first):
        raise ConfigError(f"{place}: {first!r} stands where a command's name is expected")
    words: list[str] = []
    arguments: list[Argument] = []
    for part in rest:
        match = _ARGUMENT.match(part)
        if match is None:
            words.append(part)  # before or after arguments, as in `fault broker=b3 crash at=10m`
        elif match[1] in {argument.key for argument in arguments}:
            raise ConfigError(f"{place}: {match[1]} is given twice")
        elif not match[3]:
            raise ConfigError(f"{place}: {match[1]} has no value")
        else:
            arguments.append(Argument(match[1], match[2], match[3]))
    expected = "\n".join(lines[at + 2 : end]) if end > at + 1 else None
    return Command(place, first, tuple(words), tuple(arguments), expected, at, (at + 1, end))


def _fields(line: str) -> Iterator[str]:
    """The parts of a line, separated by blanks; a comment ends the line."""
    for part in line.split():
        if part.startswith("#"):
            return
        yield part
