"""The common part of both screens: the current act, what the demo waits for, and new journal entries.

A screen has its own thread, which looks every half second at what the demo's polling has read. The only table it reads
is the evidence of rounds with swaps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from controller.domain.entries import Entry
from controller.operations.reading import Reader
from controller.testbed.demo.screen.events import Events, decide_text, swaps_in
from controller.testbed.local_cluster import LocalCluster

LOOK_S = 0.5


class Screen(Protocol):
    """Shows what the demo does."""

    def act(self, text: str) -> None:
        """Announce an act of the demo."""
        ...

    def doing(self, text: str) -> None:
        """Announce what is being started or waited for; empty: nothing in particular."""
        ...

    def say(self, lines: Sequence[str]) -> None:
        """Show these lines among the events."""
        ...

    def watch(self, cluster: LocalCluster) -> None:
        """Show this cluster."""
        ...

    def closing(self) -> None:
        """Announce that the clients are about to stop: loads say nothing about balance from now on."""
        ...


class Watching:
    """The base of both screens; subclasses draw. Use it as a context manager."""

    def __init__(self) -> None:
        self.started_s = time.monotonic()
        self.act_text, self.doing_text = "", ""
        self.doing_since_s = self.started_s
        self.cluster: LocalCluster | None = None
        self.closed_at: int | None = None  # number of entries when the clients were about to stop
        self.lines: list[str] = []
        self._shown = 0
        self._events = Events(swaps_in(lambda: Reader(self._cluster().settings)), self._decide_text)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watching:
        self.open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(2)
        self.close()

    def act(self, text: str) -> None:
        """See Screen."""
        self.act_text = text
        self.doing("")

    def doing(self, text: str) -> None:
        """See Screen."""
        self.doing_text, self.doing_since_s = text, time.monotonic()

    def say(self, lines: Sequence[str]) -> None:
        """See Screen."""
        self.lines += lines

    def watch(self, cluster: LocalCluster) -> None:
        """See Screen."""
        self.cluster = cluster

    def closing(self) -> None:
        """See Screen."""
        self.closed_at = len(self._cluster().entries)

    def open(self) -> None:
        """Prepare to draw."""

    def look(self) -> None:
        """Draw the current state."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish after the last look."""

    def entries(self) -> list[Entry]:
        """All entries until the clients were about to stop."""
        operator = self.cluster.operator if self.cluster else None
        return list(operator.seen)[: self.closed_at] if operator else []

    def fresh_lines(self, entries: list[Entry]) -> list[str]:
        """The entries that were not shown yet, in words."""
        fresh = self._events.lines(entries[self._shown :])
        self._shown = len(entries)
        self.lines += fresh
        return fresh

    def _decide_text(self, round_id: str) -> str:
        cluster = self._cluster()
        return decide_text(round_id, cluster.config_file, cluster.settings.ui.token_file is not None)

    def _cluster(self) -> LocalCluster:
        if self.cluster is None:
            raise RuntimeError("watch a cluster first")
        return self.cluster

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()
