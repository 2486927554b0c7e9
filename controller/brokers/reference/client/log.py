"""The log of a client process: JSON lines of ranges, a few per second and topic.

Lines (`t` is the kind, `at` the boot clock in ms when it was written):
    topic      i, topic, name, subscription?, type?    number i for the lines below
    acked      a: [[i, first, last], ...]              sequences acknowledged to the producer
    gap        topic, from, to, cause, gap_ms, interval_ms    a hand-over as the producer saw it; interval between sends
    delivered  i, at_ms, r: [[offset, count, p, sequence], ...]   first deliveries, in order; p numbers a producer
    again      the same fields                         redeliveries of offsets that this process had before
    confirmed  i, at_ms, r: [[low, high], ...]         acknowledgements that the store has confirmed
    producer   p, name
    end        the summary

Within a flush, first deliveries and confirmations of a topic are merged. A redelivery, or a jump of offsets where order
is guaranteed, ends the merging, so that the order of lines stays meaningful. `at_ms` of merged lines is the earliest
dispatch and the latest confirmation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from controller.brokers.reference.wire import Numbered
from controller.process.clock import boot_ms


class ClientLog:
    """An append-only JSONL file of one client process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", encoding="utf-8")
        self._acked: dict[int, list[list[int]]] = {}

    def write(self, kind: str, **fields: Any) -> None:
        """Write one line now."""
        self._file.write(json.dumps({"t": kind, "at": boot_ms(), **fields}, separators=(",", ":")) + "\n")

    def note_acked(self, topic: int, first: int, count: int) -> None:
        """Note sequences acknowledged to a producer; they are written with the next flush."""
        runs = self._acked.setdefault(topic, [])
        if runs and runs[-1][1] + 1 == first:
            runs[-1][1] = first + count - 1
        else:
            runs.append([first, first + count - 1])

    def flush(self) -> None:
        """Write what was noted and flush the file."""
        if self._acked:
            self.write("acked", a=[[i, *run] for i, runs in self._acked.items() for run in runs])
            self._acked = {}
        self._file.flush()

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        self._file.close()


class DeliveryLog:
    """Deliveries and confirmations of one topic and subscription, merged until the next flush."""

    def __init__(self, log: ClientLog, number: int, producers: dict[str, int], *, ordered: bool) -> None:
        self._ordered = ordered
        self._log = log
        self._number = number
        self._producers = producers  # shared by all topics of the process
        self._runs: list[list[int]] = []
        self._dispatched_ms = 0
        self._confirmed: list[list[int]] = []
        self._confirmed_ms = 0

    def note_delivered(self, messages: list[Numbered], at_ms: int) -> None:
        """Note first deliveries."""
        if self._ordered and self._runs and self._runs[-1][0] + self._runs[-1][1] != messages[0][0]:
            self.flush()
        if not self._runs:
            self._dispatched_ms = at_ms
        self._extend(self._runs, messages)

    def write_redelivered(self, messages: list[Numbered], at_ms: int) -> None:
        """Write redeliveries of offsets that were delivered here before."""
        self.flush()
        runs: list[list[int]] = []
        self._extend(runs, messages)
        self._log.write("again", i=self._number, at_ms=at_ms, r=runs)

    def note_confirmed(self, ranges: list[tuple[int, int]], at_ms: int) -> None:
        """Note confirmed acknowledgements."""
        self._confirmed_ms = at_ms
        for low, high in ranges:
            if self._confirmed and self._confirmed[-1][1] == low:
                self._confirmed[-1][1] = high
            else:
                self._confirmed.append([low, high])

    def flush(self) -> None:
        """Write the merged lines."""
        if self._runs:
            self._log.write("delivered", i=self._number, at_ms=self._dispatched_ms, r=self._runs)
        if self._confirmed:
            self._log.write("confirmed", i=self._number, at_ms=self._confirmed_ms, r=self._confirmed)
        self._runs, self._confirmed = [], []

    def _extend(self, runs: list[list[int]], messages: list[Numbered]) -> None:
        for offset, message in messages:
            number = self._producers.get(message.producer)
            if number is None:
                number = self._producers[message.producer] = len(self._producers)
                self._log.write("producer", p=number, name=message.producer)
            last = runs[-1] if runs else None
            if (
                last is not None
                and last[0] + last[1] == offset
                and last[2] == number
                and last[3] + last[1] == message.sequence
            ):
                last[1] += 1
            else:
                runs.append([offset, 1, number, message.sequence])
