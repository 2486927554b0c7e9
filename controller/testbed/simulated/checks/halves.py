"""Of a split whose one half moves on, the quieter one does, by what the owner has said of its halves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle


class Halves:
    """Of one run. `breach` is told of the busier half that moves on."""

    def __init__(self, breach: Callable[[str], None]) -> None:
        self._breach = breach
        self._said: dict[tuple[str, int], Mapping[str, Any]] = {}  # bundle, epoch -> what `split_done` said last

    def say(self, record: Mapping[str, Any]) -> None:
        """An agent sends a broker event."""
        if record.get("kind") == "split_done":
            self._said[record["bundle"], int(record["epoch"])] = record.get("data", {})

    def commits(self, entries: Sequence[Entry]) -> None:
        """A controller has committed these entries."""
        for split in entries:
            if split.kind is Kind.SPLIT:
                children: dict[str, int] = split.data["children"]
                moved = {e.bundle for e in entries if e.bundle in children and e.reason == Reason.SPLIT_SEND_ON.value}
                said = self._said.get((str(split.bundle), min(children.values()) - 1), {})
                if moved:
                    self._judge(list(children), moved, said)

    def _judge(self, children: Sequence[str], moved: set[str], said: Mapping[str, Any]) -> None:
        best = "best_" if said.get("best_boundary") == Bundle.parse(children[0]).upper else ""
        lower, upper = float(said.get(f"{best}lower_load", 0.0)), float(said.get(f"{best}upper_load", 0.0))
        if lower != upper and (children[0] if lower < upper else children[1]) not in moved:
            self._breach(f"of {children} with loads {lower:.3g} and {upper:.3g}, {moved} moves on")
