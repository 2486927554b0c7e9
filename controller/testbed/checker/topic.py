"""Checks one topic: its stored records against the fences, and what clients received against the records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.fences import Fence
from controller.brokers.reference.store.messages import StoredMessage
from controller.domain.ids import namespace_of, topic_hash
from controller.testbed.checker.logs import Confirmation, Consumption, Delivery

MAX_FINDINGS = 20


@dataclass(slots=True)
class Findings:
    """Counts of everything the checker looks for, and the first findings in words."""

    stored: int = 0
    acked: int = 0
    read: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    redelivered: int = 0
    fence_violations: int = 0
    mismatched: int = 0  # delivered with another producer or sequence than stored
    texts: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Keep the first findings in words."""
        if len(self.texts) < MAX_FINDINGS:
            self.texts.append(text)


class Row(NamedTuple):
    """The part of a stored record that the check of deliveries needs."""

    producer: str
    sequence: int
    key: str


def check_stored(topic: str, records: Iterable[StoredMessage], fences: list[Fence], found: Findings) -> list[Row]:
    """Check the records in offset order; return them without payloads."""
    hash_, namespace = topic_hash(topic), namespace_of(topic)
    over = [f for f in fences if f.namespace == namespace and f.lower <= hash_ < f.upper]
    rows: list[Row] = []
    seen: dict[str, Cursor] = {}
    newest: dict[tuple[str, str], int] = {}
    force, next_fence, last = None, 0, (-1, "")
    for record in records:
        while next_fence < len(over) and over[next_fence].lsn <= record.lsn:
            force, next_fence = over[next_fence], next_fence + 1
        written = (record.epoch, record.owner)
        if record.epoch < last[0] or (record.epoch == last[0] and record.owner != last[1]):
            found.fence_violations += 1
            found.say(f"{topic}@{record.offset}: written by {written} after {last}")
        elif force is not None and written != (force.epoch, force.owner):
            found.fence_violations += 1
            found.say(f"{topic}@{record.offset}: written by {written} while {force} was in force")
        last = max(last, written)
        sequences = seen.setdefault(record.producer, Cursor())
        if sequences.contains(record.sequence):
            found.duplicated += 1
            found.say(f"{topic}@{record.offset}: {record.producer} sequence {record.sequence} is stored twice")
        sequences.add(record.sequence, record.sequence + 1)
        flow = (record.producer, record.key)
        if record.sequence < newest.get(flow, -1):
            found.reordered += 1
            found.say(f"{topic}@{record.offset}: {flow} sequence {record.sequence} after {newest[flow]}")
        newest[flow] = max(record.sequence, newest.get(flow, -1))
        rows.append(Row(record.producer, record.sequence, record.key))
    found.stored += len(rows)
    return rows


def check_acknowledged(topic: str, rows: list[Row], acked: dict[str, Cursor], found: Findings) -> None:
    """Check that everything acknowledged to a producer is stored."""
    stored: dict[str, Cursor] = {}
    for row in rows:
        stored.setdefault(row.producer, Cursor()).add(row.sequence, row.sequence + 1)
    for producer, sequences in acked.items():
        ranges = [(0, sequences.mark), *sequences.ranges]
        found.acked += sum(high - low for low, high in ranges)
        have = stored.get(producer, Cursor())
        missing = [s for low, high in ranges for s in range(low, high) if not have.contains(s)]
        found.lost += len(missing)
        if missing:
            found.say(f"{topic}: {len(missing)} acknowledged messages of {producer} not stored, first {missing[0]}")


def check_delivered(
    topic: str,
    subscription: str,
    rows: list[Row],
    start: int,
    acked: dict[str, Cursor],
    consumptions: list[Consumption],
    found: Findings,
    *,
    drained: bool,
) -> None:
    """Check one subscription: everything is delivered, in order, nothing after its acknowledgement was confirmed."""
    name = f"{topic} {subscription}"
    delivered = _deliveries(name, rows, consumptions, found)
    for consumption in consumptions:
        _after_confirmation(name, consumption, found)
    if len(consumptions) > 1:
        _after_confirmation_elsewhere(name, consumptions, found)
    if all(c.ordered for c in consumptions):
        _first_deliveries_in_order(name, rows, consumptions, found)
    if not drained:
        return
    missing = [
        offset
        for offset in range(max(start, 0), len(rows))
        if not delivered.contains(offset)
        and (sequences := acked.get(rows[offset].producer)) is not None
        and sequences.contains(rows[offset].sequence)
    ]
    found.lost += len(missing)
    if missing:
        span = f"offsets {missing[0]} to {missing[-1]} of {len(rows)}"
        found.say(f"{name}: {len(missing)} acknowledged messages were never delivered, {span}")


def _deliveries(name: str, rows: list[Row], consumptions: list[Consumption], found: Findings) -> Cursor:
    delivered = Cursor()
    total = distinct = 0
    for event in chain.from_iterable(c.events for c in consumptions):
        if not isinstance(event, Delivery):
            continue
        for offset in range(event.low, event.high):
            sequence = event.sequence + offset - event.low
            if offset >= len(rows) or rows[offset][:2] != (event.producer, sequence):
                found.mismatched += 1
                found.say(f"{name}@{offset}: delivered {event.producer} {sequence}, which is not stored there")
            distinct += not delivered.contains(offset)
            delivered.add(offset, offset + 1)
        total += event.high - event.low
    found.read += distinct
    found.redelivered += total - distinct
    return delivered


def _after_confirmation(name: str, consumption: Consumption, found: Findings) -> None:
    """Check deliveries after a confirmation within one process, by the order of its log."""
    confirmed = Cursor()
    for event in consumption.events:
        if isinstance(event, Confirmation):
            confirmed.add(event.low, event.high)
            continue
        late = [offset for offset in range(event.low, event.high) if confirmed.contains(offset)]
        found.duplicated += len(late)
        if late:
            found.say(f"{name}@{late[0]}: delivered again after its acknowledgement was confirmed")


def _after_confirmation_elsewhere(name: str, consumptions: list[Consumption], found: Findings) -> None:
    """Check deliveries after a confirmation to another process, by the brokers' clock."""
    confirmed_ms: dict[int, tuple[int, int]] = {}
    for number, consumption in enumerate(consumptions):
        for event in consumption.events:
            if isinstance(event, Confirmation):
                for offset in range(event.low, event.high):
                    confirmed_ms.setdefault(offset, (event.at_ms, number))
    for number, consumption in enumerate(consumptions):
        for event in consumption.events:
            if not isinstance(event, Delivery):
                continue
            for offset in range(event.low, event.high):
                at_ms, by = confirmed_ms.get(offset, (event.at_ms, number))
                if by != number and event.at_ms > at_ms:
                    found.duplicated += 1
                    found.say(f"{name}@{offset}: delivered {event.at_ms - at_ms} ms after its confirmation elsewhere")


def _first_deliveries_in_order(name: str, rows: list[Row], consumptions: list[Consumption], found: Findings) -> None:
    newest: dict[str, int] = {}
    seen = Cursor()
    # sorted() is stable, so the order within each process's log is kept
    events = sorted((e for c in consumptions for e in c.events if isinstance(e, Delivery)), key=lambda e: e.at_ms)
    for event in events if len(consumptions) > 1 else _own_order(consumptions):
        for offset in range(event.low, min(event.high, len(rows))):
            if seen.contains(offset):
                continue
            seen.add(offset, offset + 1)
            key = rows[offset].key
            if offset < newest.get(key, -1):
                found.reordered += 1
                found.say(f"{name}@{offset}: first delivered after {newest[key]} of the same key {key!r}")
            newest[key] = max(offset, newest.get(key, -1))


def _own_order(consumptions: list[Consumption]) -> list[Delivery]:
    return [e for c in consumptions for e in c.events if isinstance(e, Delivery)]
