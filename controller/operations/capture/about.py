"""What a captured slice says of itself: `capture.json`, beside its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ABOUT = "capture.json"
TABLES_FOLDER = "tables"  # the folder of the tables, beside it


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Write it into the folder of the slice."""
    (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def slice_end_ms(root: str) -> int | None:
    """The wall-clock time at which the slice ends that these tables are; None for a cluster's tables.

    An unreadable file says nothing.
    """
    place = Path(root)
    try:
        until_ms = json.loads((place.parent / ABOUT).read_bytes())["until_ms"] if place.name == TABLES_FOLDER else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return until_ms if isinstance(until_ms, int) else None
