"""Lines of `ballast decide` in words: `lines = Lines(); lines.broker("a", cpu=90, bundles={"x": 30}); lines.next()`.

A bundle's load is in points of CPU; a point is 100 messages/s and 1 MB/s, half of them in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MINUTE_MS = 60_000


class Lines:
    """The cluster of the next line; what is decided can be carried out in it."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms
        self.members_changed = False
        self.topics = 10  # of every bundle
        self.brokers: dict[str, dict[str, float]] = {}  # broker -> bundle -> points
        self.cores: dict[str, float] = {}

    def broker(self, name: str, bundles: Mapping[str, float] | None = None, cores: float = 1.0) -> Lines:
        """A broker with its bundles; its CPU usage is their sum."""
        self.brokers[name], self.cores[name] = dict(bundles or {}), cores
        return self

    def document(self) -> dict[str, Any]:
        """The line as the protocol has it."""
        brokers = {name: self._figures(name, held) for name, held in self.brokers.items()}
        return {"now": self.now_ms, "membersChanged": self.members_changed, "brokers": brokers}

    def next(self) -> bytes:
        """The line's bytes; a minute passes."""
        raw = json.dumps(self.document()).encode() + b"\n"
        self.now_ms += MINUTE_MS
        return raw

    def carry_out(self, answer: Mapping[str, Any]) -> int:
        """Move what the answer wants moved; returns how many bundles that were."""
        moves = [d for d in answer["decisions"] if d["kind"] == "transfer"]
        for move in moves:
            self.brokers[move["to"]][move["bundle"]] = self.brokers[move["from"]].pop(move["bundle"])
        return len(moves)

    def _figures(self, name: str, held: Mapping[str, float]) -> dict[str, Any]:
        points, cores = sum(held.values()), self.cores[name]
        return {
            "cpu": [points, 100.0 * cores],
            "memory": [2**28, 2**30],
            "directMemory": [2**20, 2**30],
            "bandwidthIn": [points * 500_000, 1e9],
            "bandwidthOut": [points * 500_000, 1e9],
            "bundles": {b: [p * 50, p * 50, p * 500_000, p * 500_000, self.topics, 2, 3] for b, p in held.items()},
        }


def skewed(brokers: int = 4, parts: int = 10) -> Lines:
    """b0 is nearly full, the others have little."""
    lines = Lines()
    for at in range(brokers):
        points = 9.0 if at == 0 else 2.0
        lines.broker(f"b{at}:8080", {f"t/ns/b{at}-{part}": points for part in range(parts)})
    return lines
