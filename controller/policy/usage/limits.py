"""The CPU limit of a new process: for two minutes at most that of the process before it.

Pulsar's brokers look at their limit once a minute. One that starts before its quota is set reports the whole machine's
until then, and would be given what the others carry. Its usage is believed as reported, in points and not as a share of
the limit. A smaller limit counts at once, and so does any limit of a broker that was not heard of before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.policy.view.costs import Floats
from controller.policy.view.tabulate import Columns

DOUBTED_MS = 120_000  # from a process's first report: two of Pulsar's looks at its limit
KEPT_MS = 3_600_000  # of a broker that is gone
SILENT_MS = 60_000  # then another process may have a smaller number


class _Process(NamedTuple):
    incarnation: int
    first_ms: int
    last_ms: int
    before: float  # the limit of the process before it; infinite: there was none
    limit: float  # as believed


class LimitWatch:
    """The limits that brokers reported, pane by pane."""

    def __init__(self) -> None:
        self._processes: dict[str, _Process] = {}

    def note(self, brokers: Columns, end_ms: int) -> None:
        """A pane that ends at `end_ms`. `brokers`: its averages (`ledger.loads.average_brokers`)."""
        told = zip(brokers["broker"].tolist(), brokers["incarnation"].tolist(), _limits(brokers).tolist(), strict=True)
        for broker, incarnation, limit in told:
            process = self._processes.get(broker)
            if process is None:
                process = _Process(incarnation, end_ms, end_ms, np.inf, np.inf)
            elif process.incarnation < incarnation or process.last_ms + SILENT_MS < end_ms:
                process = _succeed(process, incarnation, end_ms)
            if process.incarnation == incarnation:  # the pane may have rows of an ended one as well
                believed = _believe(process, limit, end_ms)
                self._processes[broker] = process._replace(last_ms=end_ms, limit=believed)
        self._processes = {name: one for name, one in self._processes.items() if end_ms < one.last_ms + KEPT_MS}

    def believed(self, brokers: Columns, at_ms: int) -> Columns:
        """These averages up to this time, with limits and utilisation as they are believed."""
        limit = _limits(brokers)
        most = np.full(len(limit), np.inf)
        for at, key in enumerate(zip(brokers["broker"].tolist(), brokers["incarnation"].tolist(), strict=True)):
            process = self._processes.get(key[0])
            if process is not None and process.incarnation == key[1] and at_ms < process.first_ms + DOUBTED_MS:
                most[at] = process.before
        doubted = limit > most  # never where it is unknown
        if not doubted.any():
            return brokers
        usage = np.asarray(brokers["cpu_usage"], np.float64)
        utilisation = np.asarray(brokers["cpu_utilisation"], np.float64)
        return {
            **brokers,
            "cpu_limit": np.where(doubted, most, brokers["cpu_limit"]),
            "cpu_utilisation": np.where(doubted, usage / np.where(doubted, most, 1.0), utilisation),
        }


def _limits(brokers: Columns) -> Floats:
    """[B] as reported, NaN unknown."""
    limits = np.asarray(brokers["cpu_limit"], np.float64)
    return np.where(limits > 0, limits, np.nan)


def _succeed(process: _Process, incarnation: int, at_ms: int) -> _Process:
    """The process with this incarnation: a new one, or the same one after a silence."""
    if process.incarnation == incarnation:
        return process
    return _Process(incarnation, at_ms, at_ms, process.limit, process.limit)


def _believe(process: _Process, told: float, at_ms: int) -> float:
    if not np.isfinite(told):
        return process.limit
    return min(told, process.before) if at_ms < process.first_ms + DOUBTED_MS else told
