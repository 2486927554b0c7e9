"""The reference broker as its agent drives it: calls take time, may be refused, and may fail.

Whatever happens to a call, the broker itself is the real one, over the real store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from random import Random

from controller.brokers.reference.runtime import ReferenceBroker
from controller.brokers.runtime import Directory, LoadSample, Where
from controller.domain.errors import Fenced
from controller.domain.ids import Bundle
from controller.testbed.simulated.world import delay_ms

SLOW_DROPS = 0.5  # of those while other calls are slow
IS_SLOW, FAILS = "is slow", "fails"
COUNTED = tuple(f"{call} {how}" for call in ("serve", "hold", "release", "drop") for how in (IS_SLOW, FAILS))


class SimRuntime:
    """A `BrokerRuntime`. `on_call` is told of every call to serve a bundle, `on_serve` of what is served from then on,
    `on_split` of the parts that are.

    `counts`: how often each call was slow or failed. `dropping`: calls of `drop` that take long just now.

    `can_fence` False: the agent says that its store knows no fences. `fence` then excludes nobody, and a bundle counts
    as served for as long as its agent wants that, whatever epoch the store is at.
    """

    kind, authority, version = ReferenceBroker.kind, ReferenceBroker.authority, ReferenceBroker.version

    def __init__(self, broker: ReferenceBroker, dice: Random, can_fence: bool, counts: Counter[str]) -> None:
        self.can_fence = can_fence
        self.on_serve: Callable[[Collection[Bundle]], None] = lambda bundles: None
        self.on_split: Callable[[Collection[Bundle]], None] = lambda bundles: None
        self.on_call: Callable[[Bundle], None] = lambda bundle: None
        self.slow_ms = 0.0
        self.fails = 0.0  # the part of the calls that fail
        self.refusing = False
        self.dropping = 0
        self.half_split: set[Bundle] = set()  # by splits that failed: its agent knows of no more than that it may serve
        self._broker, self._dice, self._counts = broker, dice, counts
        self._unfenced: dict[Bundle, int] = {}  # served, but for the store's fence

    # ------------------------------------------------------------ as the broker does it

    async def start(self, directory: Directory) -> None:
        """See `BrokerRuntime`."""
        await self._broker.start(directory)

    async def stop(self) -> None:
        """See `BrokerRuntime`."""
        await self._broker.stop()

    @property
    def data_address(self) -> str:
        """See `BrokerRuntime`."""
        return self._broker.data_address

    async def reopen(self, topic: str) -> None:
        """See `BrokerRuntime`."""
        await self._broker.reopen(topic)

    def sample(self) -> LoadSample:
        """See `BrokerRuntime`."""
        return self._broker.sample()

    def topic_loads(self, bundle: Bundle) -> dict[str, float]:
        """See `ReferenceBroker`."""
        return self._broker.topic_loads(bundle)

    # ------------------------------------------------------------ with faults

    def refuses(self, bundle: Bundle) -> str | None:
        """A reason, while it takes nothing more."""
        return "304_broker_cap" if self.refusing else self._broker.refuses(bundle)

    def serving(self) -> dict[Bundle, int]:
        """What the broker serves, and what it would serve without fences."""
        serving = self._broker.serving()
        return {**serving, **self._unfenced} if self._unfenced else serving

    async def hold(self, bundle: Bundle) -> None:
        """See `BrokerRuntime`."""
        await self._work("hold")
        await self._broker.hold(bundle)

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """See `BrokerRuntime`."""
        await self._work("fence")
        if self.can_fence:
            await self._broker.fence(bundle, epoch)

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """See `BrokerRuntime`."""
        self.on_call(bundle)
        await self._work("serve")
        try:
            await self._broker.serve(bundle, epoch)
        except Fenced:
            if self.can_fence:
                raise
            self._unfenced[bundle] = epoch
        else:
            self._unfenced.pop(bundle, None)
        self.half_split.discard(bundle)
        self.on_serve([bundle])
        await self._work("serve")

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """See `BrokerRuntime`."""
        await self._work("release")
        await self._broker.release(bundle, next_owner)
        self._unfenced.pop(bundle, None)

    async def drop(self, bundle: Bundle) -> None:
        """Stop at once, unless that takes long, too, or fails: the process must end then."""
        if self.fails and self._dice.random() < self.fails / 2:
            self._count("drop", FAILS)
            raise OSError("the broker failed to stop")
        if self.slow_ms and self._dice.random() < SLOW_DROPS:
            await self._drop_slowly()
        await self._broker.drop(bundle)
        self._unfenced.pop(bundle, None)
        self.half_split.discard(bundle)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """See `BrokerRuntime`."""
        await self._work("split")
        try:
            await self._broker.split(parent, children)
        except Exception:
            self.half_split.update(children)
            raise
        self._unfenced.pop(parent, None)
        self.on_split(list(children))

    async def _drop_slowly(self) -> None:
        self._count("drop", IS_SLOW)
        self.dropping += 1
        try:
            await asyncio.sleep(self.slow_ms / 1000)
        finally:
            self.dropping -= 1

    async def _work(self, call: str) -> None:
        if self.slow_ms:
            self._count(call, IS_SLOW)
        await asyncio.sleep((delay_ms(self._dice, 1, 40) + self.slow_ms) / 1000)
        if self.fails and self._dice.random() < self.fails:
            self._count(call, FAILS)
            raise OSError("the broker failed")

    def _count(self, call: str, how: str) -> None:
        if (name := f"{call} {how}") in COUNTED:
            self._counts[name] += 1
