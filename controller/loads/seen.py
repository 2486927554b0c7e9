"""Detects duplicate reports: the sequences read so far, by (broker, incarnation), as a few closed intervals. Pure.

An agent numbers its reports and Kafka keeps their order, so there is nearly always one interval that grows by one. A
report that was sent twice or copied has a sequence within an interval. Forged sequences cannot silence a broker: they
take an interval of their own, and beyond `INTERVALS` the least recently touched one is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

INTERVALS = 16
PROCESSES = 20_000  # kept; beyond that, those that have not reported for longest are dropped
BRIDGED = 64
Process = tuple[str, int]  # broker, incarnation


@dataclass
class Seen:
    """The sequences read so far; small enough to be sent to every task."""

    spans: dict[Process, list[tuple[int, int]]] = field(default_factory=dict)  # the most recently touched is last

    def add(self, process: Process, sequence: int) -> bool:
        """Add one sequence; returns False if it was there already."""
        spans = self.spans.setdefault(process, [])
        for position in range(len(spans) - 1, -1, -1):
            low, high = spans[position]
            if low <= sequence <= high:
                return False
            if sequence in (low - 1, high + 1):
                del spans[position]
                self._put(spans, min(low, sequence), max(high, sequence))
                return True
        self._put(spans, sequence, sequence)
        return True

    def cover(self, process: Process, low: int, high: int) -> None:
        """Add all sequences from `low` to `high`."""
        if low <= high:
            self._put(self.spans.setdefault(process, []), low, high)

    def take(self, spans: Iterable[tuple[str, int, int, int]]) -> None:
        """Merge the intervals of a task: (broker, incarnation, low, high), the most recently touched last."""
        fresh: dict[Process, list[tuple[int, int]]] = {}
        for broker, incarnation, low, high in spans:
            fresh.setdefault((broker, incarnation), []).append((low, high))
        for process, found in fresh.items():
            self.spans[process] = self.spans.pop(process, [])  # to the end: the last to be dropped
            for low, high in found:
                self.cover(process, low, high)
        for process in list(self.spans)[:-PROCESSES]:
            del self.spans[process]

    def recover(self, panes: Iterable[tuple[str, int, int, int]]) -> None:
        """Rebuild the intervals after a restart from (broker, incarnation, largest sequence, number of reports) of each
        partial pane. Gaps of up to `BRIDGED` count as read: reports that an agent failed to send do not come later."""
        for broker, incarnation, last, reports in sorted(panes):
            low = last - reports + 1
            spans = self.spans.get((broker, incarnation), [])
            if spans and low - spans[-1][1] <= BRIDGED:
                low = min(low, spans[-1][1] + 1)
            self.cover((broker, incarnation), low, last)

    def of(self, processes: Iterable[Process]) -> list[tuple[str, int, int, int]]:
        """The intervals of the given processes, for `take`."""
        return [(*process, low, high) for process in processes for low, high in self.spans.get(process, ())]

    @staticmethod
    def _put(spans: list[tuple[int, int]], low: int, high: int) -> None:
        """Add an interval as the most recently touched one, merged with all adjacent and overlapping ones."""
        apart = []
        for other_low, other_high in spans:
            if other_low <= high + 1 and low <= other_high + 1:
                low, high = min(low, other_low), max(high, other_high)
            else:
                apart.append((other_low, other_high))
        spans[:] = [*apart, (low, high)][-INTERVALS:]
