"""What the hand-over core asks for, and how it went. Values only.

Actions on the runtime name their bundle and come back as `done(action, outcome)`; an `Answer` is sent on
`broker-events` and comes back as a journal entry, or not at all: therefore it is repeated.
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
    FAILED = "failed"  # anything else; what is served now is uncertain
    CANCELLED = "cancelled"  # asked for by `Cancel`; uncertain as well


@dataclass(frozen=True, slots=True)
class Serve:
    """Serve the bundle at this epoch, or adopt the epoch when it is served already."""

    bundle: Bundle
    epoch: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep clients' requests for a bundle that is on its way here."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Release:
    """Stop cleanly and tell clients the next owner."""

    bundle: Bundle
    next_owner: Session | None


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop at once."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Fence:
    """Shut out writers below the epoch, without serving."""

    bundle: Bundle
    epoch: int


@dataclass(frozen=True, slots=True)
class Split:
    """The journal retired the parent: serve the children (bundle -> epoch) in its place."""

    bundle: Bundle
    children: Mapping[Bundle, int]


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close and reopen one topic of a served bundle. Nothing waits for it."""

    bundle: Bundle
    topic: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Break off the action that runs on this bundle; it comes back CANCELLED, or as it ended meanwhile."""

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
