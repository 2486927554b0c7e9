"""Documents that are made once per version and shared by all who ask for them.

Many pages follow the same cluster and ask for the same document at the same moment, when something has changed: the
first makes it, the others wait for it. Only the newest version of a document is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

KEPT = 512  # documents


@dataclass
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: Hashable = None
    body: bytes | None = None


class Shared:
    """Thread-safe. The bytes that are returned are those that are sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()

    def get(self, key: Hashable, version: Hashable, make: Callable[[], bytes]) -> bytes:
        """The document of this key at this version. What `make` raises is raised; the next caller tries again."""
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > KEPT:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.body is None or slot.version != version:
                slot.body = make()
                slot.version = version
            return slot.body
