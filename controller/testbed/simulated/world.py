"""Virtual time: one heap of timed actions, one seeded generator, and code that blocks without a thread.

Nothing happens between two actions, and of equal times the one scheduled first comes first, so a seed always gives the
same run. Code that blocks (the control loop) runs in an `Actor`: a greenlet, which hands its turn back whenever it
sleeps, as a thread would, without the time that it takes to wake one up.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable

from greenlet import getcurrent, greenlet

LOOK_AGAIN_MS = 100.0
DRIFT = 0.07  # of a machine's clock, either way: two clocks may differ by a margin a lease, and hardly more
EPOCH_MS = 1_700_000_000_000  # of wall clocks


class World:
    """The clock and the dice of one run. Times in ms, as floats. `counts`: how often what is rare has happened."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = self.dice("world")
        self.now_ms = 10_000.0
        self.counts: Counter[str] = Counter()
        self.alarmed = False  # set by whoever has noticed something; `on_alarm` is called once the action is over
        self.on_alarm: Callable[[], None] = lambda: None
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._serial = 0
        self._actors: list[Actor] = []

    def dice(self, whose: str) -> random.Random:
        """A generator of one's own: what others draw, or whether they exist, changes nothing of it."""
        return random.Random(f"{self.seed} {whose}")

    def after(self, delay_ms: float, action: Callable[[], object]) -> None:
        """Do this so much later."""
        self.at(self.now_ms + delay_ms, action)

    def at(self, at_ms: float, action: Callable[[], object]) -> None:
        """Do this at that time, or now if it is over."""
        self._serial += 1
        heapq.heappush(self._heap, (at_ms if at_ms > self.now_ms else self.now_ms, self._serial, action))

    def run(self, for_ms: float) -> None:
        """Let time pass."""
        end_ms, heap, pop = self.now_ms + for_ms, self._heap, heapq.heappop
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, action = pop(heap)
            action()
            if self.alarmed:
                self.alarmed = False
                self.on_alarm()
        self.now_ms = end_ms

    def run_out(self, until: Callable[[], bool]) -> None:
        """Do what is next, until this holds or there is nothing left to do."""
        while self._heap and not until():
            self.now_ms, _, action = heapq.heappop(self._heap)
            action()

    def act(self, work: Callable[[Actor], None]) -> Actor:
        """Run this beside everything else, beginning now."""
        actor = Actor(self, work)
        self._actors.append(actor)
        self.after(0, actor.resume)
        return actor

    def close(self) -> None:
        """End all actors."""
        for actor in self._actors:
            actor.kill()
        self._heap.clear()


def delay_ms(dice: random.Random, low: float, high: float) -> float:
    """A random delay: mostly near the low end, as networks and disks are."""
    return low + (high - low) * dice.random() ** 3


def draw_rate(dice: random.Random) -> float:
    """Of a machine's clock; often as far off as it may be."""
    return 1 + DRIFT * min(1.0, max(-1.0, dice.uniform(-2, 2)))


class WallClock:
    """A machine's wall clock: it runs as fast as the machine's other one, and somebody may set it (`step_ms`)."""

    def __init__(self, world: World, rate: float) -> None:
        self.step_ms = 0.0
        self._world, self._rate = world, rate

    def __call__(self) -> int:
        return int(EPOCH_MS + self._world.now_ms * self._rate + self.step_ms)


class Injected(Exception):
    """Raised by what is simulated, where a fault has struck."""


class Killed(BaseException):
    """Raised in an actor whose process was killed: no `except Exception` may stop it."""


class Actor:
    """Work that blocks, as a greenlet: it runs while everything else waits, from one `sleep` or `wait` to the next."""

    def __init__(self, world: World, work: Callable[[Actor], None]) -> None:
        self.world = world
        self.failure: Exception | None = None
        self.ended = False
        self.paused_until_ms = 0.0
        self._work = work
        self._killed = False
        self._greenlet = greenlet(self._run)

    def resume(self) -> None:
        """Give it its turn; returns when it sleeps or ends."""
        if self.ended:
            return
        wait_ms = self.paused_until_ms - self.world.now_ms
        if wait_ms > 0 and not self._killed:
            self.world.after(min(wait_ms, LOOK_AGAIN_MS), self.resume)  # the pause may be ended early
            return
        self._greenlet.parent = getcurrent()
        self._greenlet.switch()

    def sleep(self, ms: float) -> None:
        """Called by the work: hand the turn back for so long."""
        self._check()
        self.world.after(ms, self.resume)
        self._hand_back()

    def wait(self, until: Callable[[], bool], most_ms: float = math.inf) -> None:
        """Called by the work: hand the turn back until this holds, which is looked at now and then."""
        self._check()
        if until():
            return
        ends_ms = self.world.now_ms + most_ms

        def look() -> None:
            paused = self.world.now_ms < self.paused_until_ms
            if self.ended or (not paused and (self.world.now_ms >= ends_ms or until())):
                self.resume()
            else:
                self.world.after(LOOK_AGAIN_MS, look)

        self.world.after(LOOK_AGAIN_MS, look)
        self._hand_back()

    def kill(self) -> None:
        """End it where it sleeps; it does nothing more."""
        self._killed = True
        if getcurrent() is not self._greenlet:
            self.resume()

    def _hand_back(self) -> None:
        self._greenlet.parent.switch()
        self._check()

    def _check(self) -> None:
        if self._killed:
            raise Killed

    def _run(self) -> None:
        try:
            self._check()
            self._work(self)
        except Killed:
            pass
        except Exception as error:
            self.failure = error
        finally:
            self.ended = True
