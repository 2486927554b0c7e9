"""What goes wrong on the way of messages: the store, the connections between processes, and the clients."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from controller.testbed.simulated.deployment import Deployment
from controller.testbed.simulated.virtual_loop import VirtualLoop

STOPS_MS = (500, 2_000, 5_000, 12_000)  # around the 10 s after which a broker gives the store up
CUT_MS, HELD_AFTER_MS = 20_000, 3_000  # the lease ends in between
HELD_MS = (6_000, 9_000, 14_000)  # until others have the bundles
GONE_MS = (100, 1_000, 4_000)
SLOW, SLOW_FOR_MS = 100.0, 1_500.0  # so that a broker has requests under way when it is paused
PAUSED_MS = (7_000, 9_000, 20_000)  # beyond its lease


class MessageFaults:
    """Strikes a deployment. `kinds`: weight, and what each does; it returns None where there is nothing to strike."""

    def __init__(self, deployment: Deployment) -> None:
        self._at = deployment
        self.kinds: dict[str, tuple[int, Callable[[Random], str | None]]] = {
            "store stopped": (2, self._stop_store),
            "store killed": (2, self._kill_store),
            "store's disk fails": (2, self._fail_disk),
            "connections break": (3, self._break),
            "connections hang": (2, self._hang),
            "network slow": (2, self._slow_down),
            "clients killed": (2, self._kill_clients),
            "clients paused": (1, self._pause_clients),
            "requests outlive their lease": (4, self._hold_requests),
            "paused with requests under way": (4, self._pause_amid_requests),
        }

    def _stop_store(self, dice: Random) -> str:
        ms = dice.choice(STOPS_MS)
        self._at.segments.pause(ms)
        return f"for {ms} ms"

    def _kill_store(self, dice: Random) -> str | None:
        if not self._at.segments.alive:
            return None
        ms = dice.choice(GONE_MS)
        self._at.segments.kill()
        self._at.world.after(ms, self._at.segments.end_faults)
        return f"for {ms} ms"

    def _fail_disk(self, dice: Random) -> str:
        """Flushes to the disk fail: the process ends, and what it did not answer may be stored or not."""
        segments, ms = self._at.segments, dice.choice(GONE_MS)
        segments.flushes_fail = 0.3
        self._at.world.after(ms, lambda: setattr(segments, "flushes_fail", 0.0))
        return f"for {ms} ms"

    def _break(self, dice: Random) -> str | None:
        loop = self._one(dice)
        return f"{self._at.network.reset(loop)} of {loop.name}" if loop else None

    def _hang(self, dice: Random) -> str | None:
        loop, ms = self._one(dice), dice.choice(STOPS_MS)
        return f"{self._at.network.hang(loop, ms)} of {loop.name} for {ms} ms" if loop else None

    def _hold_requests(self, dice: Random) -> str | None:
        """What a broker has sent to the store arrives after it was cut off, and others have its bundles."""
        living = self._at.living()
        if not living:
            return None
        one, ms, at = dice.choice(living), dice.choice(HELD_MS), self._at

        def hold() -> None:
            if not at.calm:
                at.network.hang(one.loop, ms, at.segments.loop)

        one.link.cut_until_ms = at.world.now_ms + CUT_MS
        at.world.after(HELD_AFTER_MS, hold)
        return f"of {one.broker} for {ms} ms"

    def _pause_amid_requests(self, dice: Random) -> str | None:
        """When a broker wakes up, the first that it reads are answers to what it asked before its lease ended."""
        living = self._at.living()
        if not living:
            return None
        one, ms, at = dice.choice(living), dice.choice(PAUSED_MS), self._at

        def pause() -> None:
            if not at.calm:
                one.pause(ms)

        at.network.slow = SLOW
        at.world.after(SLOW_FOR_MS, lambda: setattr(at.network, "slow", 1.0))
        at.world.after(SLOW_FOR_MS * dice.random(), pause)
        return f"{one.broker} for {ms} ms"

    def _slow_down(self, dice: Random) -> str:
        network = self._at.network
        network.slow = dice.choice((0.1, 5.0, 30.0))
        self._at.world.after(dice.choice(STOPS_MS), lambda: setattr(network, "slow", 1.0))
        return f"{network.slow:g} times"

    def _kill_clients(self, dice: Random) -> str | None:
        clients = self._at.clients
        if clients is None or not clients.alive:
            return None
        clients.kill()  # the supervisor starts the next ones
        return clients.name

    def _pause_clients(self, dice: Random) -> str | None:
        clients, ms = self._at.clients, dice.choice(STOPS_MS)
        if clients is None or not clients.alive:
            return None
        clients.loop.paused_until_ms = self._at.world.now_ms + ms
        return f"for {ms} ms"

    def _one(self, dice: Random) -> VirtualLoop | None:
        """A process that has connections."""
        loops = [one.loop for one in self._at.living()]
        if self._at.clients is not None and self._at.clients.alive:
            loops.append(self._at.clients.loop)
        return dice.choice(loops) if loops else None
