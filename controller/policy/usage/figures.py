"""CPU figures that stand: a broker that measures its CPU now and then tells the same figure until the next time.

Pulsar's brokers tell the mean of a minute for a minute. An average over a window that spans two figures is one that
nobody measured, and a figure of the time before a change of traffic says nothing of the time after it. Fresh readings
never repeat, so a figure that is the same in several panes stands. Only figures of whole panes count, and of those only
ones that came again: a pane in which the figure changed has a mean of two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.policy.view.tabulate import Columns

STANDS = 3  # panes in a row
FRESH = 5  # panes in a row that are all different: it stands no more


class Figure(NamedTuple):
    """CPU as told in points of it, and the earliest time at which it can have come."""

    value: float
    since_ms: int


class _Seen(NamedTuple):
    incarnation: int
    value: float
    first_ms: int  # the begin of the first pane with this value
    times: int  # panes in a row
    changes: int  # panes in a row without a value that came again
    figure: Figure | None  # the last value that came again, where figures stand


class FigureWatch:
    """What brokers told pane by pane."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, brokers: Columns, end_ms: int, pane_ms: int) -> None:
        """A pane that ends at `end_ms`. `brokers`: its averages (`ledger.loads.average_brokers`)."""
        told = zip(brokers["broker"], brokers["incarnation"], brokers["cpu_usage"], strict=True)
        now: dict[str, _Seen] = {}
        for broker, incarnation, usage in told:
            if np.isfinite(usage):
                fresh = _Seen(int(incarnation), float(usage), end_ms - pane_ms, 1, 0, None)
                before = self._seen.get(broker)
                same = before is not None and before.incarnation == fresh.incarnation
                now[broker] = _follow(before, fresh, pane_ms) if before is not None and same else fresh
        self._seen = now

    def standing(self) -> dict[str, Figure]:
        """The brokers whose figures stand, with the last one that is no mean of two."""
        return {broker: one.figure for broker, one in self._seen.items() if one.figure is not None}


def _follow(before: _Seen, fresh: _Seen, pane_ms: int) -> _Seen:
    if fresh.value != before.value:
        changes = before.changes + 1
        return fresh._replace(changes=changes, figure=before.figure if changes < FRESH else None)
    times = before.times + 1
    figure = Figure(before.value, before.first_ms - pane_ms)  # it may have come late in the pane before
    known = times >= STANDS or before.figure is not None
    return before._replace(times=times, changes=0, figure=figure if known else None)
