"""The clocks of a machine that the test sets, sleeps and resumes."""

from __future__ import annotations

import time

NS_PER_MS = 1_000_000


class Machine:
    """Takes the place of the `time` module in `controller.process.clock`. Times in ms."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME
    CLOCK_MONOTONIC = time.CLOCK_MONOTONIC
    CLOCK_REALTIME = time.CLOCK_REALTIME

    def __init__(self) -> None:
        self._ms = {self.CLOCK_BOOTTIME: 50_000, self.CLOCK_MONOTONIC: 40_000, self.CLOCK_REALTIME: 1_700_000_000_000}

    def run(self, ms: int) -> None:
        """Time passes."""
        for name in self._ms:
            self._ms[name] += ms

    def suspend(self, ms: int) -> None:
        """The machine sleeps: CLOCK_MONOTONIC stands still."""
        self._ms[self.CLOCK_BOOTTIME] += ms
        self._ms[self.CLOCK_REALTIME] += ms

    def set_wall(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self._ms[self.CLOCK_REALTIME] += by_ms

    def clock_gettime_ns(self, name: int) -> int:
        return self._ms[name] * NS_PER_MS

    def time_ns(self) -> int:
        return self.clock_gettime_ns(self.CLOCK_REALTIME)

    def time(self) -> float:
        return self.time_ns() / 1e9

    def monotonic_ns(self) -> int:
        return self.clock_gettime_ns(self.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        return self.monotonic_ns() / 1e9
