"""A process that has lost its lease stops serving soon, while it runs and nothing that was injected holds it up.

Others are granted its bundles a margin after the lease. What it goes on serving by then, only the store's fence keeps
harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.agent.agent import CHECK_MS
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.world import World

LOOK_EVERY_MS = 500.0
SLACK_MS = 500.0  # for calls that have to end first


class Stopping:
    """Of one run. `breach` is told of who serves on."""

    def __init__(self, world: World, brokers: Sequence[SimBroker], breach: Callable[[str], None]) -> None:
        self._world, self._brokers, self._breach = world, brokers, breach
        self._since_ms: dict[SimBroker, float] = {}  # when it was first seen to serve without a lease
        world.after(LOOK_EVERY_MS, self._look)

    def _look(self) -> None:
        for one in self._brokers:
            if one.alive:
                self._judge(one)
        self._world.after(LOOK_EVERY_MS, self._look)

    def _judge(self, one: SimBroker) -> None:
        if one.is_stopped() or one.runtime.dropping or one.leased() or not one.runtime.serving():
            self._since_ms.pop(one, None)
            return
        for_ms = self._world.now_ms - self._since_ms.setdefault(one, self._world.now_ms)
        if for_ms > CHECK_MS + SLACK_MS:
            served = sorted(map(str, one.runtime.serving()))
            self._breach(f"{one.broker} serves {served}, and has had no lease for {for_ms:.0f} ms at least")
