"""The demo on a terminal: the act, the load of the brokers as bars, and the newest events.

The picture fits the size of the terminal, even below 80x24: the newest events fill the remaining lines.
"""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from controller.domain.state import ClusterState
from controller.testbed.demo.figures import RoundView, rounds_of
from controller.testbed.demo.screen.base import Watching

LEAST_EVENTS = 4  # lines that a long list of brokers leaves for events
ASCII = str.maketrans({"→": ">", "▸": ">", "─": "-", "·": "-", "–": "-", "…": "~", "█": "#", "✓": "*"})
FULL, BUSY = 0.85, 0.60


class LiveView(Watching):
    """A live view, redrawn twice a second."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._done: list[str] = []
        self._live = Live(console=console, auto_refresh=False, transient=False, vertical_overflow="crop")

    def open(self) -> None:
        """See Watching."""
        self._live.start()

    def look(self) -> None:
        """See Watching."""
        width, height = self._console.size
        self._live.update(self.picture(width, height - 1), refresh=True)

    def close(self) -> None:
        """Leave the last picture on the screen."""
        self.look()
        self._live.stop()

    def act(self, text: str) -> None:
        """See Screen."""
        if self.act_text:
            self._done.append(self.act_text)
        super().act(text)

    def picture(self, width: int, height: int) -> Text:
        """The picture, at most `height` lines of at most `width` characters."""
        entries = self.entries()
        self.fresh_lines(entries)
        head = self._head(width)
        operator = self.cluster.operator if self.cluster else None
        if operator is None:
            return self._join(head[:height])
        rounds = rounds_of(entries)
        view = rounds[-1] if rounds else None
        room = max(1, height - len(head) - 2 - LEAST_EVENTS)
        brokers = broker_lines(operator.follower.state, view, width, room)
        title = f"── {len(entries)} journal entries, {len(rounds)} rounds "
        body = [*head, *brokers, Text(title + "─" * max(0, width - len(title)), "dim")]
        left = max(0, height - len(body))
        events = [Text(line) for line in wrap_lines(self.lines[-left:] if left else [], width)]
        return self._join([*body, *(events[-left:] if left else [])][:height])

    def _head(self, width: int) -> list[Text]:
        now_s = time.monotonic()
        lines = [Text(clip(f"Ballast demo, {now_s - self.started_s:.0f} s", width), "bold")]
        lines += [Text(clip(f"✓ {text}", width), "dim") for text in self._done[-1:]]
        act = textwrap.wrap(f"▸ {self.act_text or 'starting'}", width, subsequent_indent="  ")[:2]
        lines += [Text(line, "bold") for line in act]
        doing = f"  {now_s - self.doing_since_s:3.0f} s {self.doing_text}" if self.doing_text else ""
        return [*lines, Text(clip(doing, width), "italic")]

    def _join(self, lines: Sequence[Text]) -> Text:
        text = Text("\n", no_wrap=True, overflow="crop").join(lines)
        if self._console.options.ascii_only:
            text.plain = text.plain.translate(ASCII)
        return text


def broker_lines(state: ClusterState, view: RoundView | None, width: int, most: int) -> list[Text]:
    """A line per broker: bundles, load in the newest round, a bar. If not all fit, the busiest."""
    owned = Counter(r.by.broker for r in state.bundles.values() if r.by)
    owned.update(seen.broker for seen in state.observed.bundles.values() if seen.broker)
    scores = view.scores if view else {}
    names = sorted(state.brokers)
    if not names:
        return []
    if len(names) > most:
        busiest = sorted(names, key=lambda b: -scores.get(b, 0.0))
        names = sorted(busiest[: max(0, most - 1)])
    size = max(map(len, [*names, "broker"]))
    lines = [Text(clip(f"{'broker':{size}}  bundles  load in the newest round", width), "dim")]
    for name in names:
        score = scores.get(name)
        alive = state.session_of(name) is not None
        load = "gone" if not alive else "   –" if score is None else f"{score:4.0%}"
        line = Text(f"{name:{size}}  {owned[name]:7}  {load}  ", "" if alive else "dim")
        if alive and score is not None:
            bar = "█" * round(min(score, 1.0) * max(0, width - len(line) - 1))
            line.append(bar, "red" if score >= FULL else "yellow" if score >= BUSY else "green")
        lines.append(line)
    hidden = len(state.brokers) - len(names)
    return [*lines, *([Text(clip(f"and {hidden} less busy ones", width), "dim")] if hidden else [])]


def wrap_lines(lines: Sequence[str], width: int) -> list[str]:
    """Wrap lines at `width`, between words."""
    found = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        found += textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent + "    ") or [""]
    return found


def clip(text: str, width: int) -> str:
    """Truncate a line to `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
