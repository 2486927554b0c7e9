"""The ownership states of a bundle and the one table of legal transitions (docs/ownership.md).

An `Ownership` is a bundle's newest record in the journal. Invariant I3: along a bundle's lineage the epoch only grows;
every attempt takes a new one, even if it fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle, Session


class State(str, Enum):
    """The state of a bundle's ownership."""

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
    """The newest ownership record of one bundle."""

    bundle: Bundle
    state: State
    epoch: int
    by: Session | None = None
    to: Session | None = None
    seq: int = 0  # of the entry that states it
    released: bool = False  # RELEASING: `by` has released, and that is journaled
    fence: bool = False  # RELEASING: `to` must raise the store's fence first, and need not wait for `by`
    fencer: Session | None = None  # RELEASING to nobody: the session ordered to raise the fence
    boundary: int | None = None  # SPLITTING: where
    send_on: bool = False  # SPLITTING: the quieter half moves on at once
    cause: str = ""  # decision or command id behind the newest transition
    ever_owned: bool = False  # owned or granted before; otherwise it is assigned at its first lookup only
    moved_at_ms: int = 0  # event time of the last completed move, from which a round's grace period counts
    moving_at_ms: int = 0  # in flight: becomes `moved_at_ms` when the move completes; a failed move leaves no trace

    def __post_init__(self) -> None:
        by, to = _PARTIES[self.state]
        if by != (self.by is not None) or (to is not None and to != (self.to is not None)):
            raise InvariantBroken(f"{self.bundle}: {self.state.value} with by={self.by} to={self.to}")

    def owner_for_clients(self) -> Session | None:
        """Whom a lookup names: the owner, or the grantee in `assigning` and `releasing`."""
        if self.state is State.ASSIGNING or (self.state is State.RELEASING and self.to is not None):
            return self.to
        if self.state in (State.OWNED, State.TRANSFERRING, State.SPLITTING):
            return self.by
        return None

    def names(self, session: Session) -> bool:
        """Whether the record names this very session."""
        return session in (self.by, self.to, self.fencer)


def check_transition(old: Ownership, new: Ownership) -> None:
    """Raise InvariantBroken unless `new` may follow `old` in the journal."""
    if new.bundle != old.bundle:
        raise InvariantBroken(f"{old.bundle} cannot become {new.bundle}")
    if new.state not in TRANSITIONS[old.state]:
        raise InvariantBroken(f"{old.bundle}: {old.state.value} -> {new.state.value} is no transition")
    if new.epoch < old.epoch:
        raise InvariantBroken(f"I3: {old.bundle} epoch falls from {old.epoch} to {new.epoch}")
    grants = new.to is not None and new.to != old.to
    if grants and new.epoch <= old.epoch:
        raise InvariantBroken(f"I3: {old.bundle} granted to {new.to} without burning epoch {old.epoch}")
