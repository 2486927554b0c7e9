"""What Kafka still knows of a journal: entries of the feed, and how far anybody has read.

The feed carries only what was committed, so an entry that all its records give alike is as good as the table's. It is
not used where it contradicts the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.domain.entries import Entry


@dataclass(frozen=True, slots=True)
class Heard:
    """`entries`: those of the feed, by seq, without any that were told in two ways (`contradictory`).

    `newest_seq`: the largest that the controller named or an agent has applied, `newest_from`: which of them; nothing
    up to it may be lost.
    """

    entries: Mapping[int, Entry] = field(default_factory=dict)
    newest_seq: int = 0
    newest_from: str = ""
    contradictory: frozenset[int] = frozenset()


NOTHING = Heard()


def gather(told: Iterable[Entry], newest_seq: int, newest_from: str) -> Heard:
    """What was heard. `told`: the entries of all records; `newest_seq`: the largest seq named without its entry."""
    entries: dict[int, Entry] = {}
    contradictory = set()
    for entry in told:
        if entries.setdefault(entry.seq, entry) != entry:
            contradictory.add(entry.seq)
    kept = {seq: entry for seq, entry in entries.items() if seq not in contradictory}
    newest = max(entries, default=0)
    if newest >= newest_seq:
        newest_seq, newest_from = newest, "the journal feed"
    return Heard(kept, newest_seq, newest_from, frozenset(contradictory))
