"""What goes wrong in a run: every kind of fault by name, and how often each has struck, with orders in between.

A fault is a state that lasts for a while, or something that happens once. Which, whom and for how long is drawn from
the run's dice, so a seed always gives the same faults; with `only` some of them are left out, which is how a failing
run is made smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from random import Random

from controller.testbed.simulated.deployment import Deployment
from controller.testbed.simulated.faults.broker_faults import LONG_MS, SHORT_MS, BrokerFaults
from controller.testbed.simulated.faults.false_records import FalseRecords
from controller.testbed.simulated.faults.message_faults import MessageFaults
from controller.testbed.simulated.faults.orders import Orders

GAPS_MS = (50, 200, 500, 2_000, 5_000)  # between two faults
FAULTS = 25  # a run
MESSAGES_EVERY = 4  # of these faults, there is one on the way of messages as well
ORDERS_EVERY = 3  # of these faults, there is something that people do
FIRST_ORDER = FAULTS + FAULTS // MESSAGES_EVERY  # the numbers of the others follow those of faults
ALL_FAULTS = FIRST_ORDER + FAULTS // ORDERS_EVERY
SLEEPS_MS = (14_000, 20_000)  # in which the journal goes on by more than is kept
STEPS_MS = (-3_600_000, -2_000, 2_000, 3_600_000)  # of a wall clock

Kinds = dict[str, tuple[int, Callable[[Random], str | None]]]  # by name: weight, and what strikes


class Nemesis:
    """Strikes a deployment. `struck`: how often each kind did, also of those that never did."""

    def __init__(self, deployment: Deployment) -> None:
        self._at = deployment
        self._dice = deployment.world.dice("nemesis")
        self.messages, self.orders = MessageFaults(deployment), Orders(deployment)
        self._brokers = BrokerFaults(deployment, lambda: self._dice)
        self._false_records = FalseRecords(deployment, lambda: self._dice)
        self.kinds: dict[str, tuple[int, Callable[[], str | None]]] = {  # weight, and what it does
            **self._brokers.kinds,
            "cut off from Kafka": (3, self._cut),
            "fetches nothing": (2, self._deafen),
            "acknowledgements lost": (2, self._lose_acks),
            "records read again": (2, self._read_again),
            "feed records lost": (2, self._lose_feed),
            "tables out of one's reach": (1, self._cut_tables),
            "wall clock set": (2, self._set_clock),
            "Kafka takes nothing of one": (2, self._refuse_records),
            "stopped amid a heartbeat": (2, self._stall),
            "Kafka down": (1, self._stop_kafka),
            "Kafka slow": (2, self._slow_kafka),
            "tables down": (2, self._stop_tables),
            "commits go wrong": (3, self._spoil_commits),
            "old entries expire": (2, self._expire),
            "entries expire while one sleeps": (3, self._sleep_through),
            "snapshots damaged": (2, self._damage_snapshots),
            "controller killed": (3, self._kill_controller),
            "controller paused": (2, self._pause_controller),
            "second controller": (2, self._start_second),
            "take-over": (2, self._take_over),
            **self._false_records.kinds,
        }
        self.struck = Counter(dict.fromkeys([*self.kinds, *self.messages.kinds, *self.orders.kinds], 0))

    def torment(self, only: Collection[int] | None = None) -> None:
        """Strike ALL_FAULTS times, orders included, with time to act in between. `only`: the numbers of those that
        really strike."""
        names = list(self.kinds)
        weights = [self.kinds[name][0] for name in names]
        for number in range(FAULTS):
            self._dice = self._at.world.dice(f"fault {number}")  # left out, it changes nothing of the others
            name = self._dice.choices(names, weights)[0]
            gap_ms = self._dice.choice(GAPS_MS)
            if only is None or number in only:
                self._strike(number, name)
            self._at.run(gap_ms)
            if number % MESSAGES_EVERY == MESSAGES_EVERY - 1:
                self._strike_beside(FAULTS + number // MESSAGES_EVERY, self.messages.kinds, only)
            if number % ORDERS_EVERY == ORDERS_EVERY - 1:
                self._strike_beside(FIRST_ORDER + number // ORDERS_EVERY, self.orders.kinds, only)

    def _strike(self, number: int, name: str) -> None:
        self._note(number, name, self.kinds[name][1]())

    def _strike_beside(self, number: int, kinds: Kinds, only: Collection[int] | None) -> None:
        if only is None or number in only:
            dice = self._at.world.dice(f"fault {number}")
            name = dice.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
            self._note(number, name, kinds[name][1](dice))

    def _note(self, number: int, name: str, whom: str | None) -> None:
        if whom is not None:
            self.struck[name] += 1
            self._at.note(f"fault {number}: {name} {whom}".rstrip())

    # ------------------------------------------------------------ Kafka, as one machine sees it and as a whole

    def _cut(self) -> str | None:
        links, ms = self._at.links(), self._dice.choice(LONG_MS)
        if not links:
            return None
        at = self._dice.randrange(len(links))
        links[at].cut_until_ms = self._at.world.now_ms + ms
        return f"machine {at} for {ms} ms"

    def _deafen(self) -> str | None:
        """Several at once say goodbye at about the same time."""
        links, ms = self._at.links(), self._dice.choice(LONG_MS)
        if not links:
            return None
        deaf = self._dice.sample(range(len(links)), min(self._dice.choice((1, 1, 2, 3)), len(links)))
        for at in deaf:
            links[at].deaf_until_ms = self._at.world.now_ms + ms
        return f"machines {', '.join(map(str, deaf))} for {ms} ms"

    def _refuse_records(self) -> str | None:
        """Somebody has taken an agent's rights away, and gives them back."""
        one, ms = self._brokers.one(), self._dice.choice(LONG_MS)
        if one is None:
            return None
        one.link.refused_until_ms = self._at.world.now_ms + ms
        return f"{one.broker} for {ms} ms"

    def _stall(self) -> str | None:
        """A virtual machine is moved, and has no network for a while at its new place."""
        one, ms = self._brokers.one(), self._dice.choice((1_000, 2_000, 4_000))
        if one is None:
            return None
        one.stall(ms)
        return f"{one.broker} for {ms} ms"

    def _lose_acks(self) -> str | None:
        links = self._at.links()
        if not links:
            return None
        at = self._dice.randrange(len(links))
        links[at].lost_acks = 0.3
        self._brokers.end_later(lambda: setattr(links[at], "lost_acks", 0.0))
        return f"machine {at}"

    def _read_again(self) -> str | None:
        one = self._brokers.one()
        if one is None:
            return None
        one.read_again()
        return one.broker

    def _lose_feed(self) -> str:
        kafka = self._at.kafka
        kafka.lost_feed = 0.3
        self._brokers.end_later(lambda: setattr(kafka, "lost_feed", 0.0))
        return ""

    def _stop_kafka(self) -> str:
        ms = self._dice.choice(LONG_MS)
        self._at.kafka.stop(ms)
        return f"for {ms} ms"

    def _slow_kafka(self) -> str:
        self._at.kafka.slow = self._dice.choice((0.2, 3.0, 8.0))
        self._brokers.end_later(lambda: setattr(self._at.kafka, "slow", 1.0))
        return f"{self._at.kafka.slow:g} times"

    # ------------------------------------------------------------ tables and clocks

    def _cut_tables(self) -> str | None:
        one, ms = self._brokers.one(), self._dice.choice(LONG_MS)
        if one is None:
            return None
        one.table_cut_until_ms = self._at.world.now_ms + ms
        return f"{one.broker} for {ms} ms"

    def _stop_tables(self) -> str:
        ms = self._dice.choice((*SHORT_MS, 20_000))
        self._at.store.down_until_ms = self._at.world.now_ms + ms
        return f"for {ms} ms"

    def _spoil_commits(self) -> str:
        store = self._at.store
        store.spoilt = 0.5
        self._brokers.end_later(lambda: setattr(store, "spoilt", 0.0))
        return ""

    def _expire(self) -> str | None:
        return "" if self._at.store.expire() else None

    def _sleep_through(self) -> str | None:
        """When a broker wakes up, the entries that it reads next may be gone."""
        one, ms = self._brokers.one(), self._dice.choice(SLEEPS_MS)
        if one is None:
            return None
        one.pause(ms)
        self._at.world.after(ms - 1, self._at.store.expire)
        return f"{one.broker} for {ms} ms"

    def _damage_snapshots(self) -> str | None:
        damaged = self._at.store.damage_snapshots(self._dice)
        return f"{damaged} of them" if damaged else None

    def _set_clock(self) -> str:
        clocks, ms = self._at.wall_clocks(), self._dice.choice(STEPS_MS)
        at = self._dice.randrange(len(clocks))
        clocks[at].step_ms += ms
        return f"machine {at} by {ms} ms"

    # ------------------------------------------------------------ controllers

    def _kill_controller(self) -> str | None:
        controller = self._at.controller()
        if controller is None:
            return None
        controller.kill()
        return controller.instance

    def _pause_controller(self) -> str | None:
        controller, ms = self._at.controller(), self._dice.choice(LONG_MS)
        if controller is None:
            return None
        controller.pause(ms)
        return f"{controller.instance} for {ms} ms"

    def _start_second(self) -> str:
        return self._at.start_controller().instance

    def _take_over(self) -> str:
        """The old one sleeps in the midst of whatever it does, and wakes up when another one is there."""
        controller = self._at.controller()
        if controller is not None and self._dice.random() < 0.5:
            controller.pause(self._dice.choice(SHORT_MS))
        return self._at.start_controller(take_over=True).instance
