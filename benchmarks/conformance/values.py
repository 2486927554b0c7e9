"""What an adapter of the conformance runner may answer with, beside plain JSON values.

An adapter gets one case without its expectations and returns a mapping from the names under which the case file states
results to what the code under test gave. It never compares anything: that is `conformance_compare`'s work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Case = Mapping[str, Any]
Adapter = Callable[[Case], Mapping[str, Any]]
Adapters = Mapping["str | tuple[str, str]", Adapter]  # by kind, or by (kind, strategy)


class NotApplicable(Exception):
    """Raised by an adapter for a case that needs a live ZooKeeper or a broker's process; the text says why."""


class BadCase(Exception):
    """Raised by an adapter for a layout or a name that it does not know: counted as a failure, with the text."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One value of several that the method holds to be equally good.

    `drawn`: at random. Otherwise it was the first of equals, and a case may name it. `remembered`: asked again, the
    method said the same.
    """

    value: Any
    among: tuple[Any, ...]
    drawn: bool = True
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """A property that a case tells in prose: how it may be put, and what was found of it.

    `form` is a regular expression of the whole sentence in small letters, its runs of blanks made one. Its named groups
    are numbers; of `figures` that of the same name must be below the number, or equal to it where it is an int.
    """

    form: str
    holds: bool | str
    figures: Mapping[str, float | int]


@dataclass(frozen=True, slots=True)
class Either:
    """One result that case files write down in more than one form, as a list of bundles or with their brokers."""

    forms: tuple[Any, ...]


class Row(dict[str, Any]):
    """A record of named figures: a case may state some of them only."""


@dataclass(frozen=True, slots=True)
class Series:
    """A value after each step. A case may state all of them, only the first few, or the last alone."""

    values: tuple[Any, ...]
