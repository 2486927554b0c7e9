"""Fences: which epoch and owner may write to which hash range of a namespace, for present and future topics.

Invariants: the epoch in force at any hash only grows; an epoch belongs to one owner only; a fence is on disk before
`raise_to` returns. Epochs are compared along a range's lineage: a child range starts above its parent.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from controller.brokers.reference.store.framed_log import FramedLog, Sync
from controller.domain.errors import Fenced, StoreError, label
from controller.domain.ids import RING_END

COMPACT_ABOVE_BYTES = 1 << 20  # below, the history stays, so that a check can go back to the beginning
_RING_SIZE = RING_END + 1  # the last range includes 0xffffffff, so its exclusive end is one above


class Fence(NamedTuple):
    """One range, with the epoch and owner that may write there since `lsn`."""

    namespace: str
    lower: int
    upper: int
    epoch: int
    owner: str
    lsn: int

    def to_json(self) -> bytes:
        """The log entry."""
        return json.dumps(list(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, body: bytes) -> Fence:
        """Parse a log entry."""
        return cls(*json.loads(body))


def exclusive_end(upper: int) -> int:
    """The exclusive end of a range; one named 0xffffffff includes that hash."""
    return _RING_SIZE if upper == RING_END else upper


class FenceMap:
    """The fences in force, as adjacent ranges per namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, list[Fence]] = {}  # sorted by lower, disjoint, upper exclusive

    def at(self, namespace: str, hash_: int) -> Fence | None:
        """The fence over one hash; None where nothing was ever acquired."""
        fences = self._by_namespace.get(namespace, [])
        at = bisect_right(fences, hash_, key=lambda f: f.lower) - 1
        return fences[at] if at >= 0 and hash_ < fences[at].upper else None

    def check(self, wanted: Fence) -> None:
        """Raise Fenced when an overlapping fence is higher, or equal and of another owner."""
        for fence in self._by_namespace.get(wanted.namespace, []):
            if fence.upper <= wanted.lower or wanted.upper <= fence.lower:
                continue
            if fence.epoch > wanted.epoch or (fence.epoch == wanted.epoch and fence.owner != wanted.owner):
                raise Fenced(
                    f"{label(wanted.owner)} at epoch {wanted.epoch} for {label(wanted.namespace)} "
                    f"[0x{wanted.lower:08x}, 0x{wanted.upper:08x}): {label(fence.owner)} holds epoch {fence.epoch}; "
                    "serve only what the journal grants, at its epoch"
                )

    def put(self, wanted: Fence) -> None:
        """Put the fence over its range; the parts of older fences outside it stay in force."""
        kept: list[Fence] = []
        for fence in self._by_namespace.get(wanted.namespace, []):
            if fence.upper <= wanted.lower or wanted.upper <= fence.lower:
                kept.append(fence)
                continue
            if fence.lower < wanted.lower:
                kept.append(fence._replace(upper=wanted.lower))
            if wanted.upper < fence.upper:
                kept.append(fence._replace(lower=wanted.upper))
        self._by_namespace[wanted.namespace] = sorted([*kept, wanted], key=lambda f: f.lower)

    def all(self) -> list[Fence]:
        """Every fence in force, in the order they were raised."""
        return sorted((f for fences in self._by_namespace.values() for f in fences), key=lambda f: f.lsn)


class Fences:
    """The fence map with its durable log."""

    def __init__(self, path: Path, *, sync: Sync | None = None) -> None:
        self._log = FramedLog(path, sync=sync)
        self._map = FenceMap()
        self.last_lsn = 0
        for body in self._log.recover():
            fence = Fence.from_json(body)
            self._map.put(fence)
            self.last_lsn = max(self.last_lsn, fence.lsn)
        if self._log.size_bytes > COMPACT_ABOVE_BYTES:
            self._log.rewrite(fence.to_json() for fence in self._map.all())

    def raise_to(self, wanted: Fence) -> None:
        """Check the fence, store it, then put it in force. Repeating a fence of the same owner writes nothing.

        Raises Fenced, and StoreError for an invalid range or epoch.
        """
        if not 0 <= wanted.lower < wanted.upper <= _RING_SIZE or wanted.epoch < 0:
            raise StoreError(f"cannot fence [{wanted.lower}, {wanted.upper}) at epoch {wanted.epoch}")
        self._map.check(wanted)
        held = self._map.at(wanted.namespace, wanted.lower)
        if held is not None and held[:5] == wanted[:5]:
            return
        self._log.append(wanted.to_json())
        self._map.put(wanted)

    def all(self) -> list[Fence]:
        """Every fence in force, in the order they were raised."""
        return self._map.all()

    def at(self, namespace: str, hash_: int) -> Fence | None:
        """The fence in force over one hash."""
        return self._map.at(namespace, hash_)

    def require(self, namespace: str, hash_: int, epoch: int, owner: str) -> None:
        """Raise Fenced unless exactly this epoch and owner hold the fence over the hash."""
        fence = self._map.at(namespace, hash_)
        if fence is None or fence.epoch < epoch:
            who, where = label(owner), f"0x{hash_:08x} of {label(namespace)}"
            raise Fenced(f"{who} at epoch {epoch} never acquired {where}: acquire first")
        if fence.epoch > epoch or fence.owner != owner:
            raise Fenced(
                f"{label(owner)} at epoch {epoch} is fenced from 0x{hash_:08x} of {label(namespace)}: "
                f"{label(fence.owner)} holds epoch {fence.epoch}"
            )

    def close(self) -> None:
        """Close the log."""
        self._log.close()
