"""A journal that contradicts itself is never folded: each rule of the ownership table and of sessions, broken once."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.apply import apply_in_place, fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from tests.unit.agent.agent_world import WHOLE, Journal

A, B = Session("a:1", 1, "na", 1), Session("b:1", 1, "nb", 1)
LOW, HIGH = WHOLE.split_at(0x80000000)


@pytest.fixture
def journal() -> Journal:
    """Brokers a and b; a owns the whole ring at epoch 3."""
    made = Journal()
    for session in (A, B):
        made.register(session)
    made.namespace()
    made.own(State.ASSIGNING, 3, to=A)
    made.own(State.OWNED, 3, by=A)
    return made


def ownership(state: State, epoch: int, by: Session | None = None, to: Session | None = None, **data: Any) -> Any:
    parties = {"by": str(by) if by else None, "to": str(to) if to else None}
    return {"bundle": str(WHOLE), "state": state.value, "epoch": epoch, **parties, "data": data}


def split(lower_epoch: int, upper_epoch: int) -> Any:
    children = {str(LOW): lower_epoch, str(HIGH): upper_epoch}
    return {"bundle": str(WHOLE), "by": str(A), "data": {"children": children}}


@pytest.mark.parametrize("kind", [Kind.ALARM, Kind.MODE, Kind.OWNERSHIP])
@pytest.mark.parametrize("offset", [-1, 0, 2, 5])
def test_only_the_next_seq_is_applied(journal: Journal, kind: Kind, offset: int) -> None:
    """A repetition would undo what followed it, and what a gap leaves out may have been the end of an ownership."""
    known = journal.state.copy()
    entry = Entry(known.seq + offset, kind, "test", 0, 0, **ownership(State.OWNED, 3, by=A) | {"data": {"mode": "off"}})
    with pytest.raises(InvariantBroken, match=f"entry {entry.seq} does not follow {known.seq}"):
        apply_in_place(known, entry)
    assert known == journal.state, "and nothing has changed"


@pytest.mark.parametrize(
    ("before", "broken", "why"),
    [
        ([], ownership(State.ASSIGNING, 4, to=B), "owned -> assigning is no transition"),
        ([], ownership(State.TRANSFERRING, 3, A, B), "without burning epoch 3"),
        ([], ownership(State.RELEASING, 3, A, B), "without burning epoch 3"),
        ([], ownership(State.FREE, 2), "epoch falls from 3 to 2"),
        ([ownership(State.FREE, 3)], ownership(State.ASSIGNING, 3, to=B), "without burning epoch 3"),
        ([ownership(State.FREE, 3)], ownership(State.OWNED, 4, by=B), "free -> owned is no transition"),
        ([ownership(State.TRANSFERRING, 4, A, B)], ownership(State.OWNED, 3, by=A), "epoch falls from 4 to 3"),
        ([ownership(State.RELEASING, 4, A, B)], ownership(State.RELEASING, 4, A, A), "without burning epoch 4"),
        ([], ownership(State.OWNED, 4), "owned with by=None"),
    ],
)
def test_ownership_follows_the_table(journal: Journal, before: list[Any], broken: Any, why: str) -> None:
    for fields in before:
        journal.add(Kind.OWNERSHIP, **fields)
    with pytest.raises(InvariantBroken, match=why):
        journal.add(Kind.OWNERSHIP, **broken)


@pytest.mark.parametrize(
    "named", [ownership(State.TRANSFERRING, 4, A, B), ownership(State.RELEASING, 4, A, B)], ids=["target", "grantee"]
)
def test_nothing_is_granted_to_a_session_that_has_ended(journal: Journal, named: Any) -> None:
    journal.add(Kind.SESSION_ENDED, broker="b:1", session=str(B), reason="lease")
    with pytest.raises(InvariantBroken, match=r"names b:1#1\.nb\.1, which has ended"):
        journal.add(Kind.OWNERSHIP, **named)


@pytest.mark.parametrize("epochs", [(4, 3), (3, 4), (0, 0)])
def test_children_start_above_their_parent(journal: Journal, epochs: tuple[int, int]) -> None:
    journal.add(Kind.OWNERSHIP, **ownership(State.SPLITTING, 3, by=A, boundary=0x80000000))
    with pytest.raises(InvariantBroken, match="its parent had 3"):
        journal.add(Kind.SPLIT, **split(*epochs))


def test_only_a_splitting_bundle_is_split(journal: Journal) -> None:
    with pytest.raises(InvariantBroken, match="is split while owned"):
        journal.add(Kind.SPLIT, **split(4, 4))


def test_children_cover_their_parent(journal: Journal) -> None:
    journal.add(Kind.OWNERSHIP, **ownership(State.SPLITTING, 3, by=A, boundary=0x80000000))
    with pytest.raises(InvariantBroken):
        journal.add(Kind.SPLIT, bundle=str(WHOLE), by=str(A), data={"children": {str(LOW): 4}})


@pytest.mark.parametrize("again", [A, A._replace(nonce="other"), A._replace(number=0)])
def test_a_session_registers_once_and_never_behind_a_newer_one(journal: Journal, again: Session) -> None:
    with pytest.raises(InvariantBroken, match=r"registers after a:1#1\.na\.1"):
        journal.register(again)


def test_a_session_ends_once(journal: Journal) -> None:
    ended = {"broker": "b:1", "session": str(B), "reason": "lease"}
    journal.add(Kind.SESSION_ENDED, **ended)
    with pytest.raises(InvariantBroken, match="ends twice"):
        journal.add(Kind.SESSION_ENDED, **ended)


def test_offsets_of_partitions_that_did_not_move_stay(journal: Journal) -> None:
    journal.add(Kind.OFFSETS, data={"cluster_id": "k", "topics": {"t": {"0": 5, "1": 7}, "u": {"0": 1}}})
    journal.add(Kind.OFFSETS, data={"cluster_id": "k", "topics": {"t": {"1": 9}}})
    assert journal.state.offsets == {"t": {"0": 5, "1": 9}, "u": {"0": 1}}


def test_folding_leaves_the_given_state_alone(journal: Journal) -> None:
    states = [ClusterState()]
    for entry in journal.entries:
        states.append(fold(states[-1], [entry]))
    assert states[-1] == journal.state
    again = ClusterState()
    for entry, state in zip(journal.entries, states, strict=False):
        assert state == again
        apply_in_place(again, entry)


def test_entries_of_another_journal_are_not_folded_into_this_one() -> None:
    ours = fold(ClusterState(), [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0, data={"journal_id": "ours"})])
    theirs = Entry(2, Kind.CONTROLLER_STARTED, "j", 0, 0, data={"journal_id": "theirs"})
    with pytest.raises(InvariantBroken, match="is of journal theirs"):
        fold(ours, [theirs])
