"""How often Python looks for garbage in a process that computes rounds on large clusters."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 500_000  # a line of 20,000 bundles makes 20,000 lists, which the collector need not scan


def collect_seldom() -> None:
    """Call this once all is imported: modules are no garbage, and hardly anything that a round makes is."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
