"""The demo as lines of text, for pipes, logs, dumb terminals and `--headless`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console

from controller.testbed.demo.screen.base import Watching

SIGN_OF_LIFE_S = 10.0


class PlainLines(Watching):
    """Prints a line per act, wait and event, with the seconds since the start; repeats a wait every ten seconds."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._repeat_s = 0.0

    def act(self, text: str) -> None:
        """See Screen."""
        super().act(text)
        self._print(text)

    def doing(self, text: str) -> None:
        """See Screen."""
        super().doing(text)
        self._repeat_s = SIGN_OF_LIFE_S
        if text:
            self._print(f"    {text}")

    def say(self, lines: Sequence[str]) -> None:
        """See Screen."""
        super().say(lines)
        for line in lines:
            self._print(f"    {line}")

    def look(self) -> None:
        """Print new journal entries, and now and then a sign of life."""
        for line in self.fresh_lines(self.entries()):
            self._print(f"  · {line}")
        waited_s, text = time.monotonic() - self.doing_since_s, self.doing_text
        if text and waited_s >= self._repeat_s:
            self._repeat_s += SIGN_OF_LIFE_S
            self._print(f"    {text}, for {waited_s:.0f} s now")

    def close(self) -> None:
        """Print what came since the last look."""
        self.look()

    def _print(self, text: str) -> None:
        line = f"[{time.monotonic() - self.started_s:6.1f} s] {text}"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
