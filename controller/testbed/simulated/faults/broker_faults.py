"""What goes wrong with brokers: processes that stop, end or are there twice, lost machines, slow and failing calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.deployment import BROKERS, Deployment

SHORT_MS, LONG_MS = (500, 2_000, 5_000), (3_000, 9_000, 20_000)  # around the lease of 6 s
LEAST_BROKERS = 2  # that are left alive by single crashes
DIES_AFTER_MS = (50, 1_500)  # after the start of another process beside it
CUT_OFF = 0.4  # of the brokers that are slow or fail are cut off as well
LEAVES_STUCK, FAILS_ALWAYS = 0.3, 2.0  # of the brokers that leave; drops fail by half of that


class BrokerFaults:
    """Strikes a deployment. `kinds`: as those of `Nemesis`."""

    def __init__(self, deployment: Deployment, dice: Callable[[], Random]) -> None:
        self._at, self._dice = deployment, dice
        self.kinds: dict[str, tuple[int, Callable[[], str | None]]] = {
            "broker paused": (3, self._pause),
            "broker killed": (3, self._kill),
            "broker started beside itself": (2, self._start_beside),
            "broker leaves": (1, self._leave),
            "broker slow": (3, self._slow),
            "broker's calls fail": (3, self._fail),
            "broker refuses": (1, self._refuse),
            "several brokers killed": (2, self._kill_some),
            "machines down": (2, self._lose_machines),
        }

    def one(self, at_work: bool = False) -> SimBroker | None:
        """One that lives; one `at_work`, where there is one, serves something."""
        living = self._at.living()
        among = [one for one in living if one.serving()] if at_work else []
        return self._dice().choice(among or living) if living else None

    def _pause(self) -> str | None:
        one, ms = self.one(), self._dice().choice((500, *LONG_MS))
        if one is None:
            return None
        one.pause(ms)
        return f"{one.broker} for {ms} ms"

    def _kill(self) -> str | None:
        one = self.one()
        if one is None or len(self._at.living()) <= LEAST_BROKERS:
            return None
        one.kill()
        return one.broker

    def _start_beside(self) -> str:
        """The older process may die meanwhile, with a heartbeat on its way."""
        broker, take_over, dies = self._dice().choice(BROKERS), self._dice().random() < 0.5, self._dice().random() < 0.4
        for older in self._at.living(broker) if dies else ():
            self._at.world.after(self._dice().uniform(*DIES_AFTER_MS), older.kill)
        self._at.start_broker(broker, take_over)
        return f"{broker}{' with --take-over' if take_over else ''}{', and the older one dies' if dies else ''}"

    def _leave(self) -> str | None:
        """Two may be told at the same moment, and one that can stop nothing any more may be told just for that."""
        living = self._at.living()
        leaving = self._dice().sample(living, min(self._dice().choice((1, 1, 2)), len(living)))
        stuck = self._dice().random() < LEAVES_STUCK
        for one in leaving:
            one.runtime.fails = FAILS_ALWAYS if stuck else one.runtime.fails
            one.leave()
        names = ", ".join(one.broker for one in leaving)
        return f"{names}{', which can stop nothing' if stuck else ''}" if leaving else None

    def _slow(self) -> str | None:
        one, ms = self.one(at_work=True), self._dice().choice((300, 3_000, 12_000))
        if one is None:
            return None
        one.runtime.slow_ms = ms
        self.end_later(lambda: setattr(one.runtime, "slow_ms", 0.0))
        return f"{one.broker}: calls take {ms} ms more{self._press(one)}"

    def _fail(self) -> str | None:
        one = self.one(at_work=True)
        if one is None:
            return None
        one.runtime.fails = 0.5
        self._at.world.after(self._dice().choice(LONG_MS), lambda: setattr(one.runtime, "fails", 0.0))
        return f"{one.broker}{self._press(one)}"

    def _press(self, one: SimBroker) -> str:
        """Have a broker that is slow or fails take a bundle and give one away, or lose its lease."""
        if self._dice().random() < CUT_OFF:
            one.link.cut_until_ms = self._at.world.now_ms + self._dice().choice(LONG_MS)
            return ", and is cut off from Kafka"
        served = sorted(one.serving())
        others = [bundle for bundle in self._at.bundles() if bundle not in served]
        for bundle in self._dice().sample(served, min(2, len(served))):
            self._at.command("unload_bundle", bundle=str(bundle))
        for bundle in self._dice().sample(others, min(2, len(others))):
            self._at.command("unload_bundle", bundle=str(bundle), to=one.broker)
        return ""

    def _refuse(self) -> str | None:
        one = self.one()
        if one is None:
            return None
        one.runtime.refusing = True
        self.end_later(lambda: setattr(one.runtime, "refusing", False))
        return one.broker

    def _kill_some(self) -> str:
        """As many as around the mass-failure breaker's threshold; some are back within seconds."""
        living = self._at.living()
        killed = self._dice().sample(living, min(self._dice().randint(1, len(BROKERS)), max(0, len(living) - 1)))
        for one in killed:
            one.kill()
        for broker in self._dice().sample(BROKERS, 3):
            self._at.world.after(self._dice().randint(10, 4_000), partial(self._start_if_gone, broker))
        return f"{len(killed)} of {len(living)}"

    def _lose_machines(self) -> str:
        """Several brokers are gone for longer than their leases, one after the other: the breaker has to count them."""
        ms = self._dice().choice((9_000, 14_000, 45_000))
        lost = self._dice().sample(BROKERS, self._dice().choice((1, 2, 2, 3)))
        for broker in lost:
            self._at.world.after(
                self._dice().choice((0, 0, 3_000, 8_000, 20_000)), partial(self._lose_machine, broker, ms)
            )
        return f"{', '.join(sorted(lost))} for {ms} ms"

    def _lose_machine(self, broker: str, ms: float) -> None:
        if not self._at.calm:
            self._at.down_until_ms[broker] = self._at.world.now_ms + ms
            for one in self._at.living(broker):
                one.kill()

    def _start_if_gone(self, broker: str) -> None:
        if self._at.world.now_ms >= self._at.down_until_ms.get(broker, 0.0):
            self._at.restart_broker(broker)

    def end_later(self, end: Callable[[], object]) -> None:
        """End a state that somebody has set, after a while."""
        self._at.world.after(self._dice().choice((*SHORT_MS, *LONG_MS)), end)
