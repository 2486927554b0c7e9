"""Shows the progress of a replay: bars on a terminal, lines elsewhere. On stderr, so that the answer can be piped."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 10.0


class ReplayProgress:
    """A progress display. Use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._started_s = self._line_s = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        drawn = self._console.is_terminal and not self._console.is_dumb_terminal
        self._bars = Progress(*columns, TimeElapsedColumn(), console=self._console) if drawn else None
        self._tasks = {} if self._bars is None else {"": self._bars.add_task("starting", total=None)}

    def __enter__(self) -> ReplayProgress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def doing(self, text: str) -> None:
        """Show what is being started or waited for; empty: nothing in particular."""
        if self._bars is not None:
            self._bars.update(self._tasks[""], description=text or "working")
        elif text:
            self._line(text)

    def count(self, what: str, done: int, total: int) -> None:
        """Show a count, such as reports sent; can be called as often as one likes."""
        if self._bars is not None:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, total=total)
            self._bars.update(self._tasks[what], completed=done)
        elif done == total or time.monotonic() - self._line_s >= LINE_EVERY_S:
            self._line(f"{what}: {done} of {total}")

    def _line(self, text: str) -> None:
        self._line_s = time.monotonic()
        line = f"[{self._line_s - self._started_s:6.1f} s] {text}"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
