"""The only place that asks the system for the time. Everything else takes a number of milliseconds.

`boot_ms` is CLOCK_BOOTTIME: it goes on while the machine sleeps and no one can set it, so leases count on it.
`wall_ms` is for people and for Kafka timestamps; nothing is decided by it.
"""

from __future__ import annotations

import time


def boot_ms() -> int:
    """Milliseconds since boot, sleep included; comparable only within one machine and boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since the epoch, as the machine believes."""
    return time.time_ns() // 1_000_000
