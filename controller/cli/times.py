"""Durations and moments as people type them in options."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Annotated

import typer

_DURATION = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_MS_SINCE_EPOCH = re.compile(r"\d{12,14}")  # 2001 to 5138: as `--json` prints times
_FIRST_MS = 1  # 0 stands for a time that is not known
MOMENT = "TIME"

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar=MOMENT, show_default=False,
        help="From this time on: 90m, 2h or 3d ago, or 2026-11-21T04:50 in UTC.",
    ),
]  # fmt: skip


def duration(text: str | float) -> float:
    """Seconds of `10s`, `5m`, `1h`, `2d`, or of a plain number; typer parses an option's default as well."""
    match = _DURATION.fullmatch(str(text).strip())
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is no duration above 0: give one such as 10s, 5m or 1h")
    return seconds


def moment_ms(text: str, now_ms: int, option: str) -> int:
    """The wall-clock time, ms: a duration with its unit is so long ago, a date is in UTC unless it names a zone. A
    time before 1970 counts as the first moment of 1970: no record is older.

    Raises BadParameter, naming the option.
    """
    given = text.strip()
    if _MS_SINCE_EPOCH.fullmatch(given):
        return int(given)
    match = _DURATION.fullmatch(given)
    if match and match[2]:
        return max(_FIRST_MS, now_ms - round(1_000 * float(match[1]) * _SECONDS[match[2]]))
    try:
        moment = datetime.fromisoformat(given.removesuffix("Z"))
    except ValueError:
        raise typer.BadParameter(
            f"{option} {text!r} is no time: give how long ago, such as 90m, 2h or 3d, or a time in UTC such as "
            "2026-11-21T04:50"
        ) from None
    return max(_FIRST_MS, round(1_000 * (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()))
