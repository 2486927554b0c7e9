"""How many examples a property is tried on, and which.

A run of the checks draws the same examples every time, so that it fails for what was changed and for nothing else.
`make test-random` looks for new ones: other examples each time, and BALLAST_EXAMPLES times as many. What it finds
becomes an `@example` of its test.
"""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("BALLAST_EXAMPLES", "0"))


def load_profile() -> None:
    """Before any test module is imported: its `@settings` take from the profile what they leave open."""
    settings.register_profile("repeatable", derandomize=True, deadline=None)
    settings.register_profile("random", derandomize=False, deadline=None, database=None, print_blob=True)
    settings.load_profile("random" if FACTOR else "repeatable")


def examples(count: int) -> int:
    """`count` in a run of the checks; more of them where new ones are looked for."""
    return count * max(FACTOR, 1)


def searched(count: int, a_minute: int) -> int:
    """`count` in a run of the checks; with BALLAST_EXAMPLES=10 as many as take about a minute, with 100 ten minutes."""
    return a_minute * FACTOR // 10 if FACTOR else count
