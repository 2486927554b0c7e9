"""What an adapter of the conformance runner may return besides plain JSON values.

An adapter receives a case without its expectations and returns the results of the code under test by the names that the
case files use for them. It never compares anything: `compare.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Case = Mapping[str, Any]
Adapter = Callable[[Case], Mapping[str, Any]]
Adapters = Mapping["str | tuple[str, str]", Adapter]  # by kind, or by (kind, strategy)


class NotApplicable(Exception):
    """The case needs a live ZooKeeper or a broker process; the message says why."""


class BadCase(Exception):
    """The case has a layout or a name that its adapter does not know; it counts as a failure, with the message."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One of several values that are equally good for the method.

    `drawn`: at random; otherwise it is the first of them, and a case may name it. `remembered`: a second call returned
    the same value.
    """

    value: Any
    among: tuple[Any, ...]
    drawn: bool = True
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """A property that a case states in words: the possible wordings, and whether it holds.

    `form`: a regular expression for the whole sentence in lower case with single spaces. Its named groups are numbers;
    the figure of the same name in `figures` must be below that number, or equal to it if it is an int.
    """

    form: str
    holds: bool | str
    figures: Mapping[str, float | int]


@dataclass(frozen=True, slots=True)
class Either:
    """A result that case files write in more than one form, such as a list of bundles or bundles with their brokers."""

    forms: tuple[Any, ...]


class Row(dict[str, Any]):
    """A record of named figures. A case may state only some of them."""


@dataclass(frozen=True, slots=True)
class Series:
    """A value after each step. A case may state all of them, the first few, or only the last one."""

    values: tuple[Any, ...]
