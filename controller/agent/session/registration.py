"""The identity of this process: incarnation, nonce, session number. Pure: derived from the journal's state alone.

Invariants: the incarnation is one above the largest in the journal at start; of two processes with the same incarnation
the first nonce journaled wins, and the other one starts again; an unregistered session sends heartbeats only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.domain.ids import Session
from controller.domain.state import ClusterState


class Standing(str, Enum):
    """What the journal says about a process's own session."""

    WAITING = "waiting"  # not registered yet: send heartbeats only
    REGISTERED = "registered"  # may answer, and serve what is granted from now on
    ENDED = "ended"  # was registered and has ended: start the next session
    LOST = "lost"  # a newer process is this broker: drop everything and exit for good
    OUTRUN = "outrun"  # another one was registered with the incarnation of this one: drop everything and start again


REPLACED = frozenset({Standing.LOST, Standing.OUTRUN})  # another process is this broker: nothing more may be said


@dataclass(frozen=True, slots=True)
class Verdict:
    """A standing, with a sentence for the log and the exit message."""

    standing: Standing
    text: str = ""


def first_session(state: ClusterState, broker: str, nonce: str) -> Session:
    """The first session of a starting process; `nonce` is random and alphanumeric."""
    known = state.brokers.get(broker)
    return Session(broker, (known.session.incarnation if known else 0) + 1, nonce, 1)


def next_session(session: Session) -> Session:
    """The session that follows in the same process: the next number."""
    return session._replace(number=session.number + 1)


def judge(state: ClusterState, session: Session) -> Verdict:
    """The standing of the session in the journal."""
    known = state.brokers.get(session.broker)
    if known is None or known.session.incarnation < session.incarnation:
        return Verdict(Standing.WAITING)
    theirs = known.session
    if theirs.incarnation > session.incarnation:
        return Verdict(Standing.LOST, f"{session} has been replaced by the newer process {theirs}")
    if theirs.nonce != session.nonce:
        # It may be dead: a controller that was blocked reads the heartbeats of all that started meanwhile, the oldest
        # first. Whether it lives, the next start hears.
        return Verdict(
            Standing.OUTRUN,
            f"{theirs} registered incarnation {session.incarnation} of {session.broker} before this process "
            f"({session}) did; the next start takes the next incarnation, unless it hears that the other one lives",
        )
    if theirs.number < session.number:
        return Verdict(Standing.WAITING)
    if theirs.number > session.number:
        return Verdict(Standing.ENDED, f"the journal knows {theirs} already, {session} is over")
    if session not in state.sessions:
        return Verdict(Standing.ENDED, f"the journal ended {session}")
    return Verdict(Standing.REGISTERED)
