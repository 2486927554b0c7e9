"""What a backtest was run on and how, in words: one line for the recording, rows for the rest. Plain text, not HTML.

In: `about`, what was run as names and values. Missing names are left out; unknown ones are shown as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controller.backtest.choose.confidence import duration
from controller.backtest.recording.input import rules_text
from controller.operations.text import count_text, duration_text, time_text

SOURCE = "reports"  # the name under which `about` has what was replayed
_TOLD = {SOURCE, "reports_read", "first_ms", "last_ms", "brokers", "bundles"}  # by `recorded_text`
_ROWS: Mapping[str, tuple[str, Callable[[Any], str]]] = {  # name: words, text of the value
    "configuration": ("configuration", str),
    "round_interval_ms": ("time between rounds", duration_text),
    "steps": ("steps", str),
    "step_ms": ("time between steps", duration_text),
    "missed_steps": ("silent steps after which a broker counts as gone", str),
    "gap_ms": ("time for which a bundle that moves is not served", duration_text),
    "refused": ("lines refused", lambda rules: rules_text(rules) or "none"),
    "recording": ("digest of the recording", str),
}


def recorded_text(about: Mapping[str, Any], lasted_ms: int) -> str:
    """`3 brokers and 9 bundles for 5 minutes, 2026-11-21 01:32:30 to 01:37:40 UTC: 186 load reports of FILE`."""
    counts = [count_text(about[f"{what}s"], what) for what in ("broker", "bundle") if f"{what}s" in about]
    text = " and ".join(counts)
    if lasted_ms:
        text += f" for {duration(lasted_ms)}" if text else duration(lasted_ms)
    if "first_ms" in about and "last_ms" in about:
        text += f", {span_text(about['first_ms'] - about.get('step_ms', 0), about['last_ms'])}"
    reports = count_text(about["reports_read"], "load report") if "reports_read" in about else "load"
    refused = sum(about.get("refused", {}).values())
    reports += f" ({count_text(refused, 'line')} refused)" if refused else ""
    source = f"{reports} of {about[SOURCE]}" if SOURCE in about else ""
    return ": ".join(part for part in (text, source) if part)


def span_text(first_ms: int, last_ms: int) -> str:
    """`2026-11-21 01:32:30 to 01:37:40 UTC`; the second date is named if it is another one."""
    first, last = time_text(first_ms), time_text(last_ms)
    same_day = first[:10] == last[:10]
    return f"{first} to {last[11:] if same_day else last} UTC"


def run_rows(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How it was run: words and values, known names first."""
    for name, (words, text) in _ROWS.items():
        if name in about:
            yield words, text(about[name])
    for name, value in about.items():
        if name not in _ROWS and name not in _TOLD:
            yield name.replace("_", " "), str(value)
