"""`BrokerRuntime` without messages or clients: it tracks which bundles are served, for tests of the agent.

The invariants are those of every runtime (controller/brokers/runtime.py). `log` lists the calls that had an effect, in
order.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.brokers.memory.fences import MemoryFences
from controller.brokers.runtime import BundleStats, Directory, LoadSample, Where
from controller.domain.ids import Bundle
from controller.domain.state import JOURNAL


class MemoryRuntime:
    """Serves bundles in memory. Set `loads`, `resources` and `refusals` to control what it reports and refuses."""

    kind = "memory"
    authority = JOURNAL
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
        """Keep the directory; there is nothing to open."""
        self.directory = directory

    async def stop(self) -> None:
        """Drop everything."""
        for bundle in list(self._served):
            await self.drop(bundle)

    @property
    def data_address(self) -> str:
        """Where clients would connect."""
        return self._address

    def refuses(self, bundle: Bundle) -> str | None:
        """The reason in `refusals`, if any."""
        return self.refusals.get(bundle)

    async def hold(self, bundle: Bundle) -> None:
        """Note the hold; there are no clients."""
        self.held.add(bundle)
        self.log.append(("hold", str(bundle), 0))

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """Raise the shared fence without serving."""
        self._fences.raise_to(bundle, epoch)
        self.log.append(("fence", str(bundle), epoch))

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """Raise the fence and serve, or adopt the epoch."""
        self._fences.raise_to(bundle, epoch)
        self._served[bundle] = epoch
        self.held.discard(bundle)
        self.log.append(("serve", str(bundle), epoch))

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """Stop serving; there is nothing to flush."""
        self.log.append(("release", str(bundle), self._served.pop(bundle, 0)))
        self.held.discard(bundle)

    async def drop(self, bundle: Bundle) -> None:
        """Stop serving at once."""
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
        """Note the call."""
        self.log.append(("reopen", topic, 0))

    def serving(self) -> dict[Bundle, int]:
        """The bundles served, with epochs; a copy."""
        return dict(self._served)

    def sample(self) -> LoadSample:
        """`resources`, and `loads` of the bundles served."""
        return LoadSample(dict(self.resources), {b: self.loads.get(b, BundleStats()) for b in self._served})
