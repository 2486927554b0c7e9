"""The life of a client process: lines on stdin until SIGTERM, a callback at every tick, and its log of JSON lines.

Lines of the log have `t` (kind) and `at_ms` (wall clock), so that they can be laid beside a journal. Kinds:
    topic     topic, low, high    sequences [low, high) were acknowledged or received since the last line
              gap_ms, gap_at_ms   the longest gap since then, and when it ended
    end       topics              the totals of every topic
"""

from __future__ import annotations

import json
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from controller.process.clock import boot_ms, wall_ms


class ClientLog:
    """An append-only file of JSON lines; only the main thread writes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, **fields: Any) -> None:
        """Write one line."""
        line = json.dumps({"t": kind, "at_ms": wall_ms(), **fields}, separators=(",", ":"))
        self._file.write(line + "\n")

    def write_progress(self, topic: str, low: int, high: int, gap: tuple[int, int]) -> None:
        """Write a line of kind `topic`; `gap` is (ms, when it ended by the boot clock)."""
        gap_ms, ended_ms = gap
        self.write("topic", topic=topic, low=low, high=high, gap_ms=gap_ms, gap_at_ms=wall_ms() - boot_ms() + ended_ms)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Control:
    """The orders to this process: JSON objects on stdin, and SIGTERM or SIGINT to end."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.stopped = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        threading.Thread(target=self._read, daemon=True).start()

    def run(self, tick_s: float, on_order: Callable[[dict[str, Any]], None], on_tick: Callable[[], None]) -> None:
        """Call `on_order` for every order and `on_tick` every `tick_s`, in this thread, until stopped."""
        while not self.stopped.wait(tick_s):
            while not self._orders.empty():
                on_order(self._orders.get())
            on_tick()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopped.set()

    def _read(self) -> None:
        for line in sys.stdin:
            try:
                order = json.loads(line)
            except ValueError:
                order = None
            if isinstance(order, dict):
                self._orders.put(order)
            else:
                print(f"not a JSON object: {line.strip()[:200]}", file=sys.stderr)
