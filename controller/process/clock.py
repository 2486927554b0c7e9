"""The only place that reads the system clocks. Everything else takes milliseconds as arguments.

`boot_ms` is CLOCK_BOOTTIME, which continues while the machine sleeps and cannot be set, so leases use it. `wall_ms` is
for people and for Kafka timestamps; no decision depends on it.
"""

from __future__ import annotations

import time


def boot_ms() -> int:
    """Milliseconds since boot, including sleep; comparable only on one machine and within one boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since the epoch, by the machine's wall clock."""
    return time.time_ns() // 1_000_000
