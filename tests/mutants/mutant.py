"""Mutants as they are stored: a patch, one sentence on the bug, the tests that are expected to fail on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PATCHES = Path(__file__).parent / "patches"
CLASSES = (
    "leases",
    "epochs",
    "fences",
    "hand-over",
    "commits",
    "offsets",
    "snapshots",
    "feed",
    "splits",
    "leave",
    "breaker",
    "clocks",
    "store",
    "cursors",
    "orders",
    "repair",
)
_HEAD = re.compile(r"Bug: (?P<bug>.+)\nCaught by: (?P<tests>.+)\n\n(?=--- a/)")
_TARGET = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug. `tests` are arguments of pytest, `files` those that the patch changes, from the project's root."""

    name: str
    bug: str
    tests: tuple[str, ...]
    files: tuple[str, ...]
    patch: Path


def read_mutant(patch: Path) -> Mutant:
    """The mutant of a patch file, named `<class>/<file>`. Raises ValueError for a head that says too little."""
    text = patch.read_text(encoding="utf-8")
    name = f"{patch.parent.name}/{patch.stem}"
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f"{patch} must begin with `Bug: …`, `Caught by: …` and an empty line, before the diff")
    if patch.parent.name not in CLASSES:
        raise ValueError(f"{patch} lies in {patch.parent.name!r}, which is none of {', '.join(CLASSES)}")
    return Mutant(name, head["bug"], tuple(head["tests"].split()), tuple(_TARGET.findall(text)), patch)


def read_mutants(names: tuple[str, ...] = ()) -> list[Mutant]:
    """All mutants by name, or those whose name contains one of `names`."""
    found = [read_mutant(patch) for patch in sorted(PATCHES.rglob("*.patch"))]
    return [mutant for mutant in found if not names or any(name in mutant.name for name in names)]
