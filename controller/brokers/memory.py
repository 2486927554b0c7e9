"""A broker runtime that keeps nothing but ownership: for tests and the deterministic simulation.

`MemoryFences` is the shared store's fence: brokers of one cluster share one. Invariants are those of every runtime
(controller/brokers/runtime.py); `log` lists what was done, in order.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.brokers.runtime import BundleStats, Directory, LoadSample, Where
from controller.domain.errors import Fenced
from controller.domain.ids import Bundle


class MemoryFences:
    """Per namespace, a step function hash -> fence epoch."""

    def __init__(self) -> None:
        self._ranges: dict[str, dict[Bundle, int]] = {}

    def epoch_of(self, bundle: Bundle) -> int:
        """The highest fence that any part of the range has; 0 when nobody raised one."""
        ranges = self._ranges.get(bundle.namespace, {})
        return max((epoch for other, epoch in ranges.items() if other.overlaps(bundle)), default=0)

    def raise_to(self, bundle: Bundle, epoch: int) -> None:
        """Shut out every writer below `epoch`; raises Fenced when a higher fence stands."""
        found = self.epoch_of(bundle)
        if found > epoch:
            raise Fenced(f"{bundle} is fenced at epoch {found}, {epoch} comes too late")
        self._ranges.setdefault(bundle.namespace, {})[bundle] = epoch


class MemoryRuntime:
    """Serves bundles in memory. Loads can be set; refusals too."""

    kind = "memory"
    can_fence = True
    version = ""

    def __init__(self, fences: MemoryFences, address: str = "127.0.0.1:1") -> None:
        self._fences = fences
        self._address = address
        self._served: dict[Bundle, int] = {}
        self.held: set[Bundle] = set()
        self.log: list[tuple[str, str, int]] = []
        self.refusals: dict[Bundle, str] = {}
        self.loads: dict[Bundle, BundleStats] = {}
        self.resources: dict[str, tuple[float, float]] = {}
        self.directory: Directory | None = None

    async def start(self, directory: Directory) -> None:
        """Nothing to open."""
        self.directory = directory

    async def stop(self) -> None:
        """Drop everything."""
        for bundle in list(self._served):
            await self.drop(bundle)

    @property
    def data_address(self) -> str:
        """Where clients would connect to."""
        return self._address

    def refuses(self, bundle: Bundle) -> str | None:
        """What `refusals` says."""
        return self.refusals.get(bundle)

    async def hold(self, bundle: Bundle) -> None:
        """There are no clients to hold."""
        self.held.add(bundle)
        self.log.append(("hold", str(bundle), 0))

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """Raise the shared fence."""
        self._fences.raise_to(bundle, epoch)
        self.log.append(("fence", str(bundle), epoch))

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """Serve, or adopt the epoch."""
        self._fences.raise_to(bundle, epoch)
        self._served[bundle] = epoch
        self.held.discard(bundle)
        self.log.append(("serve", str(bundle), epoch))

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """Stop; there is nothing to flush."""
        self.log.append(("release", str(bundle), self._served.pop(bundle, 0)))
        self.held.discard(bundle)

    async def drop(self, bundle: Bundle) -> None:
        """Stop at once."""
        self.log.append(("drop", str(bundle), self._served.pop(bundle, 0)))
        self.held.discard(bundle)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Serve the children in the parent's place."""
        for child, epoch in children.items():
            self._fences.raise_to(child, epoch)
        self._served.pop(parent, None)
        self._served.update(children)
        self.log.append(("split", str(parent), max(children.values())))

    async def reopen(self, topic: str) -> None:
        """Only noted."""
        self.log.append(("reopen", topic, 0))

    def serving(self) -> dict[Bundle, int]:
        """A copy of what is served."""
        return dict(self._served)

    def sample(self) -> LoadSample:
        """The loads set, for what is served."""
        return LoadSample(dict(self.resources), {b: self.loads.get(b, BundleStats()) for b in self._served})
