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
from controller.testbed.simulated.world import Actor, WallClock, World, delay_ms

JOURNAL_ID = "simulated"
KAFKA = {"cluster_id": "simulated"}
TICK_MS, REPEAT_MS = 500, 1_000
REPLAYED, MOST_REPLAYED = 0.15, 20  # the part of the batches that bring records again, and of a partition at most
AGAIN, LAGS = "committed records came again", "agent lags beyond the limit"
COUNTED = (AGAIN, LAGS)


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
        """Called by the controller itself, which therefore lives."""
        self._tick()


class SimController:
    """One instance. `clock_rate`: of its machine's clocks, against true time."""

    def __init__(
        self, world: World, kafka: SimKafka, store: SimStore, instance: str, settings: ControlSettings,
        names: TopicNames, *, take_over: bool, clock_rate: float,
    ) -> None:  # fmt: skip
        self.instance, self.settings, self.take_over, self._names = instance, settings, take_over, names
        self.dice = world.dice(instance)
        self.link = Link(self.dice)
        self.loop: ControlLoop | None = None
        self.judges_since_ms = world.now_ms  # counts leases from then on; its first commit may be some time before
        self.alive = True
        self.wall_clock = WallClock(world, clock_rate)
        self.on_end: Callable[[Exception], None] = lambda error: None  # by itself: nothing ends it but an error
        self._world, self._kafka, self._store, self._rate = world, kafka, store, clock_rate
        self._producer = SimProducer(kafka, self.link, lambda: self.alive and not self.paused)
        self._metrics = metrics_of_controllers(world.seed)
        self._oldest: Offsets = {}  # what may come again begins here; elsewhere at 0
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
        return first_entries(state, self.instance, self.wall_clock(), self.settings, KAFKA, JOURNAL_ID)

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
            wall_ms=self.wall_clock, boot_ms=self.boot_ms,
        )  # fmt: skip
        self.judges_since_ms = self._world.now_ms
        self.loop = ControlLoop(
            Claim(self.instance, state, KAFKA), tables, feed, self._names, self.settings,
            Clocks(self.boot_ms, self.wall_clock), self._metrics,
        )  # fmt: skip
        position, topics = self._beginning(state), self._names.control
        self._oldest = {topic: offsets for topic, offsets in position.items() if topic in self._names.all_heartbeats}
        feed.publish(entries)
        feed.begin(self._world, state.seq, self)
        batch_ids = count()
        while True:
            actor.wait(partial(self._kafka.reaches, self.link))
            since, until = position, self._kafka.ends(topics)
            if until != since:  # as in Spark, there is no batch without a record; the controller's own ticks are some
                lagging = self.loop.lagging
                self.loop.process(partial(self._collect, actor, since, until), next(batch_ids))
                self._world.counts[LAGS] += len(self.loop.lagging - lagging)
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
        return list(self._kafka.rows(self._replay(since), until))

    def _replay(self, since: Offsets) -> Offsets:
        """Where the rows really begin: now and then before the batch, as if its checkpoint were an older one. Of
        heartbeats, which the journal has no offsets of, nothing comes that is older than the controller."""
        if self.dice.random() >= REPLAYED:
            return since
        number = self.dice.randint(1, MOST_REPLAYED)
        earlier = {
            topic: {p: max(self._oldest.get(topic, {}).get(p, 0), offset - number) for p, offset in partitions.items()}
            for topic, partitions in since.items()
        }
        self._world.counts[AGAIN] += earlier != since
        return earlier
