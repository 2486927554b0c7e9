"""Reads a store's folder from outside, even while a store serves it; for checks. Changes and locks nothing.

A message that is being written at that moment looks torn and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.fences import Fence
from controller.brokers.reference.store.frames import Bodies, scan
from controller.brokers.reference.store.messages import StoredBodies, StoredMessage, unpack_stored
from controller.brokers.reference.store.topic import replay_acks


@dataclass(frozen=True, slots=True)
class TopicDump:
    """One topic, read from its files."""

    name: str
    folder: Path

    def records(self) -> Iterator[StoredMessage]:
        """Every stored message in offset order."""
        for path in sorted(self.folder.glob("*.seg")):
            for _, body in scan(path.read_bytes(), path, StoredBodies(int(path.stem))):
                yield unpack_stored(body)

    def cursors(self) -> dict[str, Cursor]:
        """The position of every subscription."""
        path = self.folder / "acks.log"
        return replay_acks([body for _, body in scan(path.read_bytes(), path, Bodies())]) if path.exists() else {}


def topics(root: Path) -> list[TopicDump]:
    """All topics of a store, by name."""
    found = [
        TopicDump(json.loads(meta.read_text())["topic"], meta.parent) for meta in root.glob("topics/*/*/topic.json")
    ]
    return sorted(found, key=lambda t: t.name)


def fences(root: Path) -> list[Fence]:
    """The fences in the order they were raised, since the log was last compacted."""
    path = root / "fences.log"
    if not path.exists():
        return []
    return [Fence.from_json(body) for _, body in scan(path.read_bytes(), path, Bodies())]
