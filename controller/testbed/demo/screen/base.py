"""What the demo tells: the act it is in, what it waits for, and what the journal says, as it happens.

A screen has a thread of its own that looks every half second at what the demo's own polling has read; it reads no
table but the evidence of a round with swaps.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Protocol

from controller.domain.entries import Entry
from controller.operations.reading import Reader
from controller.testbed.demo.screen.events import Events, swaps_in
from controller.testbed.local_cluster import LocalCluster

LOOK_S = 0.5


class Screen(Protocol):
    """Where the demo tells what it does."""

    def act(self, text: str) -> None:
        """An act of the demo begins."""
        ...

    def doing(self, text: str) -> None:
        """What is being started or waited for within the act; empty: nothing in particular."""
        ...

    def watch(self, cluster: LocalCluster) -> None:
        """Show this cluster."""
        ...

    def closing(self) -> None:
        """The clients are about to stop: what loads do from now on says nothing about balance."""
        ...


class Watching:
    """What both screens have in common. Use it as a context manager; subclasses draw."""

    def __init__(self) -> None:
        self.started_s = time.monotonic()
        self.act_text, self.doing_text = "", ""
        self.doing_since_s = self.started_s
        self.cluster: LocalCluster | None = None
        self.closed_at: int | None = None  # entries that were seen when the clients were about to stop
        self.lines: list[str] = []
        self._told = 0
        self._events = Events(swaps_in(lambda: Reader(self._cluster().settings)))
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

    def watch(self, cluster: LocalCluster) -> None:
        """See Screen."""
        self.cluster = cluster

    def closing(self) -> None:
        """See Screen."""
        self.closed_at = len(self._cluster().entries)

    def open(self) -> None:
        """Before the first look."""

    def look(self) -> None:
        """Draw what there is now."""
        raise NotImplementedError

    def close(self) -> None:
        """After the last look."""

    def seen(self) -> list[Entry]:
        """All entries so far; none once the clients were about to stop."""
        operator = self.cluster.operator if self.cluster else None
        return list(operator.seen)[: self.closed_at] if operator else []

    def fresh_lines(self, entries: list[Entry]) -> list[str]:
        """What was not told yet, in words."""
        fresh = self._events.lines(entries[self._told :])
        self._told = len(entries)
        self.lines += fresh
        return fresh

    def _cluster(self) -> LocalCluster:
        if self.cluster is None:
            raise RuntimeError("watch a cluster first")
        return self.cluster

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()
