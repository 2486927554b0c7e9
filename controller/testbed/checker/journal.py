"""Checks a whole journal: I2 to I4 after every commit, every command answered once, every decision carried out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.state import ClusterState
from controller.sim.ownership.invariants import check_state

ANSWERS = (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED)


def check_entries(entries: Sequence[Entry]) -> ClusterState:
    """Check a whole journal: its numbers, every state, what is decided once. Raises InvariantBroken."""
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        raise InvariantBroken(f"I4: the journal's {len(entries)} entries are not 1, 2, 3 and so on")
    state = check_states(entries)
    check_decided_once(entries)
    return state


def check_states(entries: Iterable[Entry]) -> ClusterState:
    """Fold a journal from its first entry, commit by commit, and check every state. Raises InvariantBroken."""
    state = ClusterState()
    for _, commit in groupby(entries, key=lambda entry: (entry.instance, entry.batch)):
        after = fold(state, list(commit))
        check_state(state, after)
        state = after
    return state


def check_decided_once(entries: Iterable[Entry]) -> None:
    """One answer to a command, one move of a bundle by a decision, offsets that only grow. Raises InvariantBroken."""
    entries = list(entries)
    answers = Counter(e.command_id for e in entries if e.kind in ANSWERS)
    moves = Counter(
        (e.decision_id, e.bundle)
        for e in entries
        if e.kind is Kind.OWNERSHIP and e.state == "transferring" and e.decision_id
    )
    for what, counts in (("answers to command", answers), ("moves by decision", moves)):
        for one, count in counts.items():
            if count > 1:
                raise InvariantBroken(f"{count} {what} {one}")
    _check_offsets(entry for entry in entries if entry.kind is Kind.OFFSETS)


def _check_offsets(entries: Iterable[Entry]) -> None:
    offsets: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        for topic, partitions in entry.data["topics"].items():
            topic_id = str(entry.data.get("topic_ids", {}).get(topic))  # another Kafka counts from its own start
            for partition, offset in partitions.items():
                before = offsets.get((topic, topic_id, partition), 0)
                if offset < before:
                    raise InvariantBroken(f"the offset of {topic}/{partition} fell from {before} to {offset}")
                offsets[topic, topic_id, partition] = offset
