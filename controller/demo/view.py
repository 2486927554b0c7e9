"""The demo on a terminal: brokers' loads as bars, moves as they happen, the step at hand."""

from __future__ import annotations

import threading
from collections import Counter, deque
from types import TracebackType

from rich.bar import Bar
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from controller.demo.figures import describe, rounds_of
from controller.demo.local_cluster import LocalCluster
from controller.domain.state import ClusterState

LINES = 10


class LiveView:
    """Redrawn twice a second from what the demo's own polling has read; starts no reads of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._cluster: LocalCluster | None = None
        self._steps: deque[str] = deque(maxlen=3)
        self._stop = threading.Event()
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._thread = threading.Thread(target=self._redraw, daemon=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(2)
        self._live.update(self._picture(), refresh=True)
        self._live.stop()

    def watch(self, cluster: LocalCluster) -> None:
        """Show this cluster."""
        self._cluster = cluster

    def tell(self, step: str) -> None:
        """The step that begins."""
        self._steps.append(step)

    def _redraw(self) -> None:
        while not self._stop.wait(0.5):
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        steps = Text("\n".join(f"▸ {s}" for s in self._steps) or "▸ starting")
        parts: list[object] = [Panel(steps, title="Ballast demo", title_align="left")]
        operator = self._cluster.operator if self._cluster else None
        if operator is not None:
            entries = list(operator.seen)
            parts.append(self._brokers(operator.follower.state))
            lines = [line for e in entries[-400:] if (line := describe(e))][-LINES:]
            title = f"journal seq {operator.follower.state.seq}, {len(rounds_of(entries))} rounds"
            parts.append(Panel(Text("\n".join(lines) or "–"), title=title, title_align="left"))
        return Group(*parts)  # type: ignore[arg-type]

    @staticmethod
    def _brokers(state: ClusterState) -> Table:
        owned = Counter(r.by.broker for r in state.bundles.values() if r.by)
        scores = state.round_memory.get("scores", {})
        table = Table("broker", "bundles", "score", "load of the last round", expand=True)
        for broker in sorted(state.brokers):
            alive = state.session_of(broker) is not None
            score = float(scores.get(broker, 0.0))
            colour = "red" if score >= 0.85 else "yellow" if score >= 0.6 else "green"
            bar = Bar(1.0, 0.0, min(score, 1.0), color=colour) if alive else Text("gone", style="dim")
            table.add_row(broker, str(owned[broker]), f"{score:.0%}" if alive else "", bar)
        return table
