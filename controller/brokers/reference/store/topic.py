"""One topic of the store: its log, its producers' last sequences, its subscriptions.

Acknowledgements are JSON entries in `acks.log` beside the segments; the log is rewritten as a snapshot at start and
whenever it grows past 4 MiB.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.framed_log import FramedLog, Sync
from controller.brokers.reference.store.messages import Message, StoredMessage
from controller.brokers.reference.store.producers import OutOfSequence, ProducerTail
from controller.brokers.reference.store.segments import OpenFiles, TopicLog
from controller.domain.errors import StoreError, label, shown
from controller.domain.ids import namespace_of, topic_hash

COMPACT_ACKS_ABOVE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """The offset of a message, and whether it was stored before."""

    offset: int
    duplicate: bool


class StoredTopic:
    """The state of one topic, recovered from its folder."""

    def __init__(
        self, name: str, folder: Path, files: OpenFiles, *, segment_bytes: int, sync: Sync | None = None
    ) -> None:
        self.name = name
        self.namespace = namespace_of(name)
        self.hash = topic_hash(name)
        self.log = TopicLog(folder, files, segment_bytes=segment_bytes)
        self.producers: dict[str, ProducerTail] = {}
        self.cursors: dict[str, Cursor] = {}
        self.last_lsn = 0
        for record in self.log.recover():
            self.producers.setdefault(record.producer, ProducerTail()).note(record.sequence, record.offset)
            self.last_lsn = record.lsn
        self._acks = FramedLog(folder / "acks.log", sync=sync)
        self._recover_cursors()

    def append(
        self, messages: list[Message], *, epoch: int, owner: str, lsn: int, time_ms: int
    ) -> tuple[list[Stored], list[Path]]:
        """Store new messages, all or none; returns a `Stored` for each message and what is to be flushed.

        Raises OutOfSequence when a producer skips a sequence, and then stores nothing.
        """
        answers: list[Stored] = []
        fresh: list[StoredMessage] = []
        expected: dict[str, int] = {}
        positions: dict[tuple[str, int], int] = {}
        for producer, sequence, key, payload in messages:
            tail = self.producers.get(producer)
            due = expected.get(producer, tail.last + 1 if tail else 0)
            if sequence > due:
                raise OutOfSequence(
                    f"{label(producer)} sent sequence {sequence} to {label(self.name)} where {due} is due: "
                    f"send {due} first"
                )
            if sequence < due:
                at = positions.get((producer, sequence))
                answers.append(Stored(tail.offset_of(sequence) if tail and at is None else at or 0, True))
                continue
            offset = self.log.next_offset + len(fresh)
            fresh.append(StoredMessage(offset, epoch, owner, producer, sequence, key, payload, lsn, time_ms))
            positions[producer, sequence] = offset
            expected[producer] = sequence + 1
            answers.append(Stored(offset, False))
        if not fresh:
            return answers, []
        written = self.log.append(fresh)
        for record in fresh:
            self.producers.setdefault(record.producer, ProducerTail()).note(record.sequence, record.offset)
        self.last_lsn = lsn
        return answers, written

    def subscribe(self, subscription: str, *, latest: bool) -> Cursor:
        """The subscription's cursor; a new one is stored at the beginning of the topic, with `latest` at its end."""
        cursor = self.cursors.get(subscription)
        if cursor is None:
            cursor = Cursor(self.log.next_offset if latest else 0)
            self._acks.append(_entry(subscription, start=cursor.start, mark=cursor.mark))
            self.cursors[subscription] = cursor
        return cursor

    def acknowledge(self, subscription: str, ranges: list[tuple[int, int]], below: int | None) -> Cursor:
        """Acknowledge ranges and everything below an offset, durably. Raises StoreError for offsets not stored."""
        cursor = self.cursors.get(subscription)
        if cursor is None:
            raise StoreError(f"{label(self.name)} has no subscription {shown(subscription)}: subscribe first")
        end = max([high for _, high in ranges] + [below or 0])
        if end > self.log.next_offset or any(low < 0 or low >= high for low, high in ranges):
            raise StoreError(
                f"cannot acknowledge {shown(ranges)} below {end} of {label(self.name)}: "
                f"it ends at {self.log.next_offset}"
            )
        self._acks.append(_entry(subscription, ranges=ranges, below=below))
        _apply(cursor, ranges, below)
        if self._acks.size_bytes > COMPACT_ACKS_ABOVE_BYTES:
            self._compact()
        return cursor

    def tail(self) -> dict[str, Any]:
        """What an owner needs to continue the topic: next offset, last sequences, cursors."""
        return {
            "next": self.log.next_offset,
            "bytes": self.log.bytes,
            "producers": {name: tail.last for name, tail in self.producers.items()},
            "cursors": {
                name: {"mark": c.mark, "ranges": c.ranges, "start": c.start} for name, c in self.cursors.items()
            },
        }

    def close(self) -> None:
        """Close the files that this topic holds itself."""
        self._acks.close()

    def _recover_cursors(self) -> None:
        entries = self._acks.recover()
        self.cursors = replay_acks(entries)
        if len(entries) > 2 * len(self.cursors):
            self._compact()
        else:
            self._acks.close()  # reopened by the next acknowledgement: descriptors are scarce

    def _compact(self) -> None:
        self._acks.rewrite(
            _entry(name, ranges=c.ranges, start=c.start, mark=c.mark) for name, c in self.cursors.items()
        )


def replay_acks(entries: list[bytes]) -> dict[str, Cursor]:
    """The cursors after the entries of an acknowledgement log."""
    cursors: dict[str, Cursor] = {}
    for body in entries:
        entry = json.loads(body)
        if "start" in entry:
            cursors[entry["s"]] = Cursor(entry["mark"], start=entry["start"])
        _apply(cursors[entry["s"]], entry.get("r", []), entry.get("b"))
    return cursors


def _apply(cursor: Cursor, ranges: list[tuple[int, int]], below: int | None) -> None:
    if below is not None:
        cursor.acknowledge_below(below)
    for low, high in ranges:
        cursor.add(low, high)


def _entry(
    subscription: str,
    *,
    ranges: list[tuple[int, int]] | None = None,
    below: int | None = None,
    start: int | None = None,
    mark: int | None = None,
) -> bytes:
    fields = {"s": subscription, "r": ranges, "b": below, "start": start, "mark": mark}
    return json.dumps({k: v for k, v in fields.items() if v is not None}, separators=(",", ":")).encode()
