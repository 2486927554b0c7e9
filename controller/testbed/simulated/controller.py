"""One controller process: the real start, the real control loop, the real feed, on the simulated Kafka and tables.

Its life is one thread: listen, claim the journal, then a batch after the other. It ends as the real job does: on a lost
journal, on anything unexpected, or killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from controller.bus.topics import TopicNames
from controller.domain.entries import Entry
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.service.feed import Feed
from controller.service.loop import Claim, Clocks, ControlLoop
from controller.service.records import Offsets, Row
from controller.service.start import Ticks, become_controller, check_alone, first_entries
from controller.testbed.simulated.kafka import Fetched, Link, SimKafka, SimProducer
from controller.testbed.simulated.metrics import metrics_of_controllers
from controller.testbed.simulated.tables import SimControlTables, SimStore
from controller.testbed.simulated.world import Actor, World, delay_ms

JOURNAL_ID = "simulated"
KAFKA = {"cluster_id": "simulated"}
TICK_MS, REPEAT_MS = 500, 1_000


class SimFeed(Feed):
    """The feed of one controller; its timer is the world's."""

    def begin(self, world: World, seq: int, living: SimController) -> None:
        """Tick from now on, for as long as the controller lives."""
        self.seq = seq

        def tick(number: int) -> None:
            if not living.alive:
                return
            if not living.paused:
                self._tick()
                if number % (REPEAT_MS // TICK_MS) == 0:
                    self._publish({"seq": self.seq})
            world.after(TICK_MS, lambda: tick(number + 1))

        tick(0)

    def poke(self) -> None:
        """There are no rounds here."""


class SimController:
    """One instance. `clock_rate`: of its boot clock, against true time."""

    def __init__(
        self, world: World, kafka: SimKafka, store: SimStore, instance: str, settings: ControlSettings,
        names: TopicNames, *, take_over: bool, clock_rate: float,
    ) -> None:  # fmt: skip
        self.instance, self.settings, self.take_over, self._names = instance, settings, take_over, names
        self.dice = world.dice(instance)
        self.link = Link(self.dice)
        self.loop: ControlLoop | None = None
        self.alive = True
        self.wall_step_ms = 0.0
        self.on_end: Callable[[Exception], None] = lambda error: None  # by itself: nothing ends it but an error
        self._world, self._kafka, self._store, self._rate = world, kafka, store, clock_rate
        self._producer = SimProducer(kafka, self.link, lambda: self.alive and not self.paused)
        self._metrics = metrics_of_controllers(world.seed)
        self.actor = world.act(self._live)

    @property
    def paused(self) -> bool:
        """Whether the process is stopped now."""
        return self._world.now_ms < self.actor.paused_until_ms

    def pause(self, ms: float) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        self.actor.paused_until_ms = self._world.now_ms + ms

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False
        self._producer.dead = True
        self.actor.kill()

    def boot_ms(self) -> int:
        """CLOCK_BOOTTIME of its machine."""
        return int(self._world.now_ms * self._rate)

    def decided_ms(self) -> float:
        """The true time as of which its last batch has judged leases: before the batch was planned."""
        judged_ms = self.loop.judged_ms if self.loop is not None else None
        return judged_ms / self._rate if judged_ms is not None else self._world.now_ms

    def wall_ms(self) -> int:
        """The wall clock, which somebody may set."""
        return int(1_700_000_000_000 + self._world.now_ms + self.wall_step_ms)

    def _live(self, actor: Actor) -> None:
        try:
            tables, state, entries = become_controller(
                lambda: SimControlTables(self._store, self.instance, actor, self.dice, self._metrics),
                self._prepare,
                self.take_over,
            )
            self._control(actor, tables, state, entries)
        except Exception as error:
            self.alive = False
            self.on_end(error)
            raise
        finally:
            self.alive = False
            self._producer.dead = True

    def _prepare(self, state: ClusterState, take_over: bool) -> list[Entry]:
        check_alone(state, state.seq == 0, take_over, self.settings, self._listen)
        return first_entries(state, self.instance, self.wall_ms(), self.settings, KAFKA, JOURNAL_ID)

    def _listen(self, for_ms: int) -> str | None:
        """As `listen_for_another`."""
        ticks = Ticks(JOURNAL_ID)

        def take(records: Sequence[Fetched]) -> None:
            for record in records:
                ticks.hear(record.value)

        reader = self._kafka.reader(self.link, [self._names.heartbeats], take)
        reader.runs = lambda: self.alive and not self.paused
        reader.start()
        try:
            self.actor.wait(lambda: ticks.living is not None, for_ms)
        finally:
            reader.stop()
        return ticks.living

    def _control(self, actor: Actor, tables: SimControlTables, state: ClusterState, entries: list[Entry]) -> None:
        feed = SimFeed(
            self._producer,  # type: ignore[arg-type]
            self._names, self.instance, journal_id=JOURNAL_ID, tick_ms=TICK_MS, repeat_ms=REPEAT_MS,
            wall_ms=self.wall_ms, boot_ms=self.boot_ms,
        )  # fmt: skip
        self.loop = ControlLoop(
            Claim(self.instance, state, KAFKA), tables, feed, self._names, self.settings,
            Clocks(self.boot_ms, self.wall_ms), self._metrics,
        )  # fmt: skip
        position, topics = self._beginning(state), self._names.control
        feed.publish(entries)
        feed.begin(self._world, state.seq, self)
        batch_ids = count()
        while True:
            actor.wait(partial(self._kafka.reaches, self.link))
            since, until = position, self._kafka.ends(topics)
            if until != since:  # as in Spark, there is no batch without a record; the controller's own ticks are some
                self.loop.process(partial(self._collect, actor, since, until), next(batch_ids))
                position = until
            actor.sleep(delay_ms(self.dice, 50, 300))

    def _beginning(self, state: ClusterState) -> Offsets:
        """Where the first batch begins: at the journal's offsets, of heartbeats at their end."""
        ends = self._kafka.ends(self._names.control)
        return {
            topic: {
                number: end if topic in self._names.all_heartbeats else state.offsets.get(topic, {}).get(number, 0)
                for number, end in partitions.items()
            }
            for topic, partitions in ends.items()
        }

    def _collect(self, actor: Actor, since: Offsets, until: Offsets) -> list[Row]:
        """A batch's rows: planned before, read now."""
        actor.sleep(delay_ms(self.dice, 5, 150) * self._kafka.slow)
        actor.wait(partial(self._kafka.hears, self.link))
        return list(self._kafka.rows(since, until))
