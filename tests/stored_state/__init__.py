"""State as a version leaves it behind: how it is written for `tests/data/state_*`, and how tests read it."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
# Every version whose state must be read, oldest first.
VERSIONS = sorted(path.name.removeprefix("state_") for path in DATA.glob("state_*"))


def folder_of(version: str) -> Path:
    """Where a version's files are."""
    return DATA / f"state_{version}"
