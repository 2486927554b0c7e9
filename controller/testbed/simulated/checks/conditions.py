"""Counts what a run has come to, by its journal: trips of the breaker, and splits of what splits have made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controller.domain.entries import Entry, Kind

TRIPPED = "breaker trips"
GENERATIONS = ("bundle split", "half of a split split", "quarter of a split split")
COUNTED = (TRIPPED, *GENERATIONS)


class Conditions:
    """Of one run. `counts`: where they are counted."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._splits: dict[str, int] = {}  # bundle -> how many splits it comes from
        self.newest: tuple[str, ...] = ()  # what the last split has made

    def commits(self, entries: Sequence[Entry]) -> None:
        """A controller has committed these entries."""
        for entry in entries:
            if entry.kind is Kind.GUARD and entry.data.get("frozen"):
                self._counts[TRIPPED] += 1
            elif entry.kind is Kind.SPLIT:
                before = self._splits.get(str(entry.bundle), 0)
                self._counts[GENERATIONS[min(before, len(GENERATIONS) - 1)]] += 1
                self.newest = tuple(entry.data["children"])
                self._splits.update(dict.fromkeys(self.newest, before + 1))
