"""The journal refuses what contradicts it: entries that a run has committed, spoilt in one way each, are offered to
copies of the state that they led to or came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import cast

from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError, ForeignCommit, InvariantBroken, OutcomeUnknown
from controller.domain.ids import Session
from controller.domain.state import ClusterState
from controller.testbed.simulated.tables import SimJournal, SimStore, Version
from controller.testbed.simulated.world import Actor, World

NOBODY = "never"  # the nonce of a process that never was


def check_refusals(entries: Sequence[Entry], before: ClusterState, breach: Callable[[str], None]) -> None:
    """Tell `breach` of a spoilt entry that the journal takes. Neither the entries nor the state are changed."""
    state = before.copy()
    for entry in entries:
        for what, spoilt in _spoil(entry, state):
            if _takes(state, spoilt):
                breach(f"the journal takes entry {entry.seq} with {what}: {spoilt}")
        apply_in_place(state, entry)
    if entries:
        for what, spoilt in (("its own seq again", entries[-1]), ("a gap", _at(entries[-1], state.seq + 2))):
            if _takes(state, spoilt):
                breach(f"the journal takes entry {entries[-1].seq} with {what}")


def check_commit_refusals(store: SimStore, breach: Callable[[str], None]) -> None:
    """Tell `breach` of entries that a journal's writer would commit though they do not continue it."""
    last = store.journal[-1]
    beyond, beyond_that = replace(last, seq=last.seq + 1), replace(last, seq=last.seq + 3)
    for what, entries in (
        ("a gap", [beyond, beyond_that]),
        ("an entry of an old state", [replace(last, instance=NOBODY)]),
    ):
        scratch = SimStore(World(store.world.seed))
        scratch.journal, scratch.versions = store.journal[-1:], [Version(last.instance, last.batch, (last,))]
        writer = SimJournal(scratch, cast(Actor, SimpleNamespace(sleep=lambda ms: None)), Random(0))
        try:
            writer.commit(entries, NOBODY, 0)
            breach(f"the journal's writer commits {what}")
        except (ForeignCommit, InvariantBroken):
            continue
        except OutcomeUnknown:  # it tried
            breach(f"the journal's writer would commit {what}")


def _spoil(entry: Entry, state: ClusterState) -> Iterator[tuple[str, Entry]]:
    if entry.kind is Kind.SPLIT:
        parent = state.bundles[str(entry.bundle)]
        children = dict.fromkeys(entry.data["children"], parent.epoch)
        yield "its parent's epoch", replace(entry, data={**entry.data, "children": children})
    elif entry.kind is Kind.OWNERSHIP and entry.epoch is not None:
        old = state.bundles[str(entry.bundle)]
        yield "an epoch that falls", replace(entry, epoch=old.epoch - 1)
        if entry.to is not None and entry.to != str(old.to):
            yield "a grant at the epoch before", replace(entry, epoch=old.epoch)
        if entry.to is not None:
            session = Session.parse(entry.to)
            dead = session._replace(nonce=NOBODY)
            yield "a grantee that has ended", replace(entry, to=str(dead))


def _takes(state: ClusterState, entry: Entry) -> bool:
    copy = state.copy()
    try:
        apply_in_place(copy, entry)
    except BallastError:
        return False
    return True


def _at(entry: Entry, seq: int) -> Entry:
    return replace(entry, seq=seq, kind=Kind.ALARM)
