"""The actions of the hand-over core and their outcomes. Values only.

An action on the runtime names its bundle and is reported back with an `Outcome`. An `Answer` is sent on `broker-events`
and is repeated until the journal reacts to it with an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from controller.domain.ids import Bundle, Session


class Outcome(str, Enum):
    """How an action on the runtime ended."""

    DONE = "done"
    FENCED = "fenced"  # the store holds a higher epoch for the range
    FAILED = "failed"  # any other error; what is served now is uncertain
    CANCELLED = "cancelled"  # by `Cancel`; uncertain as well


@dataclass(frozen=True, slots=True)
class Serve:
    """Serve the bundle at this epoch; a bundle already served adopts the epoch."""

    bundle: Bundle
    epoch: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold clients' requests for a bundle that is being handed over to this broker."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Release:
    """Stop serving cleanly and tell clients the next owner."""

    bundle: Bundle
    next_owner: Session | None


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop serving at once."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence off writers below the epoch, without serving."""

    bundle: Bundle
    epoch: int


@dataclass(frozen=True, slots=True)
class Split:
    """The journal retired the parent: serve the children (bundle -> epoch) in its place."""

    bundle: Bundle
    children: Mapping[Bundle, int]


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close and reopen one topic of a served bundle. No answer depends on it."""

    bundle: Bundle
    topic: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the action that runs on this bundle; its outcome is CANCELLED unless it ended before."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker event that the journal waits for."""

    kind: str
    bundle: Bundle
    epoch: int
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


Work = Serve | Hold | Release | Drop | Fence | Split
Action = Work | Reopen | Cancel | Answer
