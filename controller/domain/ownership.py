"""The ownership states of a bundle and the one table of legal transitions (docs/ownership.md).

An `Ownership` is what the journal's newest word on a bundle says. Invariant I3: along a bundle's lineage the epoch
only grows; every attempt burns one, also one that fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle, Session


class State(str, Enum):
    """Where a bundle's ownership stands."""

    FREE = "free"
    ASSIGNING = "assigning"
    OWNED = "owned"
    TRANSFERRING = "transferring"
    RELEASING = "releasing"
    SPLITTING = "splitting"
    RETIRED = "retired"


IN_FLIGHT = frozenset({State.ASSIGNING, State.TRANSFERRING, State.RELEASING, State.SPLITTING})

# state -> states that the next entry may name. RELEASING -> RELEASING is a new grantee or a fence order.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.FREE: frozenset({State.ASSIGNING}),
    State.ASSIGNING: frozenset({State.OWNED, State.FREE, State.RELEASING}),
    State.OWNED: frozenset({State.TRANSFERRING, State.RELEASING, State.SPLITTING, State.FREE}),
    State.TRANSFERRING: frozenset({State.RELEASING, State.OWNED, State.FREE}),
    State.RELEASING: frozenset({State.OWNED, State.ASSIGNING, State.RELEASING, State.FREE}),
    State.SPLITTING: frozenset({State.RETIRED, State.OWNED, State.FREE}),
    State.RETIRED: frozenset(),
}

# Which of `by` and `to` a record of that state carries (RELEASING: `to` is None when it goes to nobody).
_PARTIES: dict[State, tuple[bool, bool | None]] = {
    State.FREE: (False, False),
    State.ASSIGNING: (False, True),
    State.OWNED: (True, False),
    State.TRANSFERRING: (True, True),
    State.RELEASING: (True, None),
    State.SPLITTING: (True, False),
    State.RETIRED: (False, False),
}


@dataclass(frozen=True, slots=True)
class Ownership:
    """The journal's newest word on one bundle."""

    bundle: Bundle
    state: State
    epoch: int
    by: Session | None = None
    to: Session | None = None
    seq: int = 0  # the entry that made it so
    released: bool = False  # RELEASING: `by` has said so, journaled
    fence: bool = False  # RELEASING: `to` (or `fencer`) must raise the store's fence first, and need not wait
    fencer: Session | None = None  # RELEASING to nobody: who was asked to raise the fence
    boundary: int | None = None  # SPLITTING: where
    send_on: bool = False  # SPLITTING: the quieter half moves on at once
    cause: str = ""  # decision or command id behind the newest transition
    ever_owned: bool = False  # owned or granted before; one that never was is assigned at its first lookup only
    moved_at_ms: int = 0  # record time of the last completed move (a round's grace counts from it)
    moving_at_ms: int = 0  # in flight: what `moved_at_ms` becomes when the move completes; a failed one leaves no trace

    def __post_init__(self) -> None:
        by, to = _PARTIES[self.state]
        if by != (self.by is not None) or (to is not None and to != (self.to is not None)):
            raise InvariantBroken(f"{self.bundle}: {self.state.value} with by={self.by} to={self.to}")

    def owner_for_clients(self) -> Session | None:
        """Whom a lookup names: the owner, or in `assigning` and `releasing` the one it goes to."""
        if self.state is State.ASSIGNING or (self.state is State.RELEASING and self.to is not None):
            return self.to
        if self.state in (State.OWNED, State.TRANSFERRING, State.SPLITTING):
            return self.by
        return None

    def names(self, session: Session) -> bool:
        """Whether the record concerns this very session."""
        return session in (self.by, self.to, self.fencer)


def check_transition(old: Ownership, new: Ownership) -> None:
    """Raise InvariantBroken unless the journal may say `new` after `old`."""
    if new.bundle != old.bundle:
        raise InvariantBroken(f"{old.bundle} cannot become {new.bundle}")
    if new.state not in TRANSITIONS[old.state]:
        raise InvariantBroken(f"{old.bundle}: {old.state.value} -> {new.state.value} is no transition")
    if new.epoch < old.epoch:
        raise InvariantBroken(f"I3: {old.bundle} epoch falls from {old.epoch} to {new.epoch}")
    grants = new.to is not None and new.to != old.to
    if grants and new.epoch <= old.epoch:
        raise InvariantBroken(f"I3: {old.bundle} granted to {new.to} without burning epoch {old.epoch}")
