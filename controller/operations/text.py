"""Times, durations, rates and shares as people read them: UTC, with units."""

from __future__ import annotations

import math
from datetime import datetime, timezone


def time_text(at_ms: int | None) -> str:
    """`2026-11-21 04:50:33` in UTC; empty for an unknown or zero time."""
    if not at_ms:
        return ""
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def minute_text(at_ms: int | None) -> str:
    """`2026-11-21 04:50` in UTC, for a time whose seconds say nothing; empty for an unknown or zero time."""
    return time_text(at_ms).rpartition(":")[0]


def duration_text(ms: float | None) -> str:
    """`850 ms`, `4.2 s`, `3m 10s`, `2h 05m`, `3d 4h`."""
    if ms is None:
        return ""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 3_600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{seconds // 3_600}h {seconds % 3_600 // 60:02d}m"
    return f"{seconds // 86_400}d {seconds % 86_400 // 3_600}h"


def rate_text(per_s: float | None, unit: str = "") -> str:
    """`1.2 k`, `350`, followed by `unit`; prefixes are powers of 1,000."""
    if per_s is None or math.isnan(per_s):
        return ""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(per_s) >= size:
            return f"{per_s / size:.1f} {prefix}{unit}"
    return f"{per_s:.0f} {unit}".rstrip() if abs(per_s) >= 10 or per_s == 0 else f"{per_s:.1f} {unit}".rstrip()


def percent_text(fraction: float | None) -> str:
    """A fraction as `82.3 %`; empty if unknown."""
    if fraction is None or math.isnan(fraction):
        return ""
    return f"{100 * fraction:.1f} %".replace("-0.0 %", "0.0 %")  # a sum that is not quite 0


def count_text(number: int, one: str, many: str = "") -> str:
    """`1 move`, `2 moves`; `many`: where it is not the one with an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
