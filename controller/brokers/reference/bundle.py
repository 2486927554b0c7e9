"""The bundles on this broker: their state, and the table of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from controller.domain.ids import Bundle

if TYPE_CHECKING:
    from controller.brokers.reference.topic import OpenTopic


class Phase(str, Enum):
    """What the broker does with requests for a bundle."""

    HELD = "held"  # being handed over to this broker: requests wait
    ACQUIRING = "acquiring"  # waiting for the store: requests wait
    SERVING = "serving"
    RELEASING = "releasing"  # new requests are refused


@dataclass(slots=True)
class Traffic:
    """Counters since the last sample."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(eq=False, slots=True)
class ServedBundle:
    """One bundle: phase, epoch, its open topics, and the tails of the others."""

    bundle: Bundle
    phase: Phase
    epoch: int = -1
    acquired: bool = False  # the store has confirmed this epoch
    topics: dict[str, OpenTopic] = field(default_factory=dict)
    tails: dict[str, dict[str, Any]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    topic_rates: dict[str, float] = field(default_factory=dict)  # messages/s in and out, as of the last sample


class BundleTable:
    """Bundles by name and by hash, and the requests that wait for a bundle."""

    def __init__(self) -> None:
        self._by_name: dict[Bundle, ServedBundle] = {}
        self._by_namespace: dict[str, list[ServedBundle]] = {}
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []

    def get(self, bundle: Bundle) -> ServedBundle | None:
        """The bundle of exactly this range."""
        return self._by_name.get(bundle)

    def put(self, served: ServedBundle) -> None:
        """Add or replace a bundle."""
        self.remove(served.bundle)
        self._by_name[served.bundle] = served
        self._by_namespace.setdefault(served.bundle.namespace, []).append(served)

    def remove(self, bundle: Bundle) -> None:
        """Remove the bundle, if it is there."""
        found = self._by_name.pop(bundle, None)
        if found is not None:
            self._by_namespace[bundle.namespace].remove(found)

    def find(self, namespace: str, hash_: int) -> ServedBundle | None:
        """The bundle with this hash; a serving one is preferred to one on its way here."""
        best = None
        for served in self._by_namespace.get(namespace, []):
            if served.bundle.contains(hash_):
                if served.phase is Phase.SERVING:
                    return served
                best = served
        return best

    def overlapping(self, bundle: Bundle) -> list[ServedBundle]:
        """Other bundles that share hashes with this one."""
        return [
            s for s in self._by_namespace.get(bundle.namespace, []) if s.bundle != bundle and s.bundle.overlaps(bundle)
        ]

    def __iter__(self) -> Iterator[ServedBundle]:
        return iter(list(self._by_name.values()))

    async def wait_for_change(self, namespace: str, hash_: int, timeout_s: float) -> bool:
        """Wait until a bundle with the hash changes; False on timeout."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (namespace, hash_, future)
        self._waiting.append(entry)
        try:
            await asyncio.wait_for(future, max(0.0, timeout_s))
        except asyncio.TimeoutError:
            return False
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
        return True

    def wake(self, bundle: Bundle) -> None:
        """Wake the requests that wait for the bundle."""
        still = []
        for entry in self._waiting:
            namespace, hash_, future = entry
            if namespace == bundle.namespace and bundle.contains(hash_):
                if not future.done():
                    future.set_result(None)
            else:
                still.append(entry)
        self._waiting = still
