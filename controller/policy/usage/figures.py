"""CPU figures that stand: a broker that measures its CPU now and then tells the same figure until the next time.

Pulsar's brokers tell the mean of a minute for a minute. An average over a window that spans two figures is one that
nobody measured, and a figure of the time before a change of traffic says nothing of the time after it. Fresh readings
do not repeat like that, but those of an idle broker may stay the same for a while: figures stand once two of them have
followed each other, and no more once three panes in a row are all different. Only figures of whole panes count, and of
those only ones that came again: the mean of a pane in which the figure changed is one of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.policy.view.tabulate import Columns

STANDS = 3  # panes in a row
FRESH = 3  # panes in a row that are all different; a new figure makes two: the one in which it came, and the next
MISSED = 2  # panes in a row that may be missing, as one that is written late is


class Figure(NamedTuple):
    """CPU as told in points of it, and the earliest time at which it can have come."""

    value: float
    since_ms: int


class _Seen(NamedTuple):
    incarnation: int
    value: float
    first_ms: int  # the begin of the first pane with this value
    last_ms: int  # the end of the last one
    times: int = 1  # panes in a row
    changes: int = 0  # panes in a row without a value that came again
    stood: float | None = None  # the last value that stood
    figure: Figure | None = None  # the last value that came again, where figures stand


class FigureWatch:
    """What brokers told pane by pane."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, brokers: Columns, end_ms: int, pane_ms: int) -> None:
        """A pane that ends at `end_ms`. `brokers`: its averages (`ledger.loads.average_brokers`)."""
        told = zip(
            brokers["broker"].tolist(), brokers["incarnation"].tolist(), brokers["cpu_usage"].tolist(), strict=True
        )
        for broker, incarnation, usage in told:
            if np.isfinite(usage):
                before, fresh = self._seen.get(broker), _Seen(incarnation, usage, end_ms - pane_ms, end_ms)
                same = before is not None and before.incarnation == incarnation
                self._seen[broker] = _follow(before, fresh, pane_ms) if before is not None and same else fresh
        oldest_ms = end_ms - MISSED * pane_ms
        self._seen = {broker: one for broker, one in self._seen.items() if one.last_ms >= oldest_ms}

    def standing(self) -> dict[str, Figure]:
        """The brokers whose figures stand, with the last one that is no mean of two."""
        return {broker: one.figure for broker, one in self._seen.items() if one.figure is not None}


def _follow(before: _Seen, fresh: _Seen, pane_ms: int) -> _Seen:
    if fresh.value != before.value:
        changes = before.changes + 1
        if changes >= FRESH:
            return fresh._replace(changes=changes)
        return fresh._replace(changes=changes, stood=before.stood, figure=before.figure)
    times = before.times + 1
    stands = times >= STANDS
    follows = stands and before.stood not in (None, before.value)  # another one that stood
    since_ms = before.first_ms - pane_ms  # it may have come late in the pane before
    return before._replace(
        last_ms=fresh.last_ms,
        times=times,
        changes=0,
        stood=before.value if stands else before.stood,
        figure=Figure(before.value, since_ms) if follows or before.figure is not None else None,
    )
