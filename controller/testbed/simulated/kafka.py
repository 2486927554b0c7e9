"""Kafka in memory: partitions that only grow, producers that retry, readers that are late.

As in Kafka, records of one partition keep their order for every reader, and records of two partitions do not. A record
is acknowledged after it was appended, and an acknowledgement may be lost; then the producer sends it again, so that a
record may be there twice. Every fault is a state that somebody sets: an outage, a machine that is cut off, a machine
that sends but fetches nothing.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from random import Random
from typing import Any, NamedTuple

from controller.bus.producer import to_json
from controller.bus.topics import TopicNames
from controller.service.records import Row
from controller.testbed.simulated.world import Injected, WallClock, World, delay_ms, draw_rate

FEED = TopicNames().journal_feed
REFUSED, EXPIRED, ACK_LOST = "record refused", "send expired", "acknowledgement lost"
NEVER_READ, READ_AGAIN = "record never read", "records came again over a new connection"
COUNTED = (REFUSED, EXPIRED, ACK_LOST, NEVER_READ, READ_AGAIN)
PARTITIONS = 3  # of a topic whose records have keys
RETRY_MS, DELIVERY_TIMEOUT_MS = 100.0, 10_000.0


class Undelivered(Injected):
    """Raised by the future of a record that was not acknowledged in time; it may be there all the same."""


class Refused(Injected):
    """Raised by the future of a record that Kafka does not take, at once; it is not there."""


class Fetched(NamedTuple):
    """A record as a reader gets it."""

    topic: str
    value: bytes


class Link:
    """The connection of one machine to Kafka, with dice of its own. Times until which a fault lasts."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.cut_until_ms = 0.0
        self.deaf_until_ms = 0.0  # sends, but fetches nothing
        self.refused_until_ms = 0.0  # Kafka takes no record of it: its rights are gone
        self.lost_acks = 0.0  # the part of the acknowledgements that get lost


class Delivery(Future[tuple[int, int]]):
    """What `send` returns. An error of whoever is told of the end goes through, where a real one is logged."""

    def _invoke_callbacks(self) -> None:
        for callback in self._done_callbacks:  # type: ignore[attr-defined]
            callback(self)


class SimKafka:
    """The one cluster of a run. Its records have the time of a wall clock of their own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.down_since_ms = self.down_until_ms = 0.0
        self.slow = 1.0  # multiplies delays
        self.wall_clock = WallClock(world, draw_rate(world.dice("clock of Kafka")))
        self.counts = world.counts
        self.lost_feed = 0.0  # the part of the feed's records that a reader never gets
        self._log: dict[tuple[str, int], list[Row]] = defaultdict(list)
        self._appended_ms: dict[tuple[str, int], list[float]] = defaultdict(list)  # true times, of the same records
        self._readers: list[SimReader] = []

    def stop(self, ms: float) -> None:
        """It is away for so long, or for longer if it is away already."""
        now_ms = self.world.now_ms
        if now_ms >= self.down_until_ms:
            self.down_since_ms = now_ms
        self.down_until_ms = now_ms + ms

    def since_outage_ms(self, of_at_least_ms: float, for_one_since_ms: float, at_ms: float) -> float:
        """How long the newest outage had ended at that time, for a process that began then; infinite if it was shorter
        than that for this process, or goes on."""
        began_ms = max(self.down_since_ms, for_one_since_ms)
        if self.down_until_ms - began_ms < of_at_least_ms or at_ms < self.down_until_ms:
            return math.inf
        return at_ms - self.down_until_ms

    def reaches(self, link: Link) -> bool:
        """Whether the machine can send now."""
        now_ms = self.world.now_ms
        return now_ms >= self.down_until_ms and now_ms >= link.cut_until_ms

    def hears(self, link: Link) -> bool:
        """Whether the machine can fetch now."""
        return self.reaches(link) and self.world.now_ms >= link.deaf_until_ms

    def append(self, topic: str, value: bytes, key: str | None) -> tuple[int, int]:
        """Append a record; returns partition and offset."""
        partition = zlib.crc32(key.encode()) % PARTITIONS if key is not None else 0
        log = self._log[topic, partition]
        row = Row(topic, partition, len(log), self.wall_clock(), value, key)
        log.append(row)
        self._appended_ms[topic, partition].append(self.world.now_ms)
        for reader in self._readers:
            if topic in reader.topics:
                reader.expect(row)
        return partition, row.offset

    def records(self, topic: str, since_ms: float = 0.0) -> list[Row]:
        """Everything that was appended to a topic, ever or since a true time."""
        logs = [(log, self._appended_ms[place]) for place, log in self._log.items() if place[0] == topic]
        return [row for log, times in logs for row in log[bisect_left(times, since_ms) :]]

    def ends(self, topics: Sequence[str]) -> dict[str, dict[str, int]]:
        """Topic -> partition -> the offset after the newest record, of partitions that have any."""
        found: dict[str, dict[str, int]] = {topic: {} for topic in topics}
        for (topic, partition), log in self._log.items():
            if topic in found:
                found[topic][str(partition)] = len(log)
        return found

    def rows(self, since: Mapping[str, Mapping[str, int]], until: Mapping[str, Mapping[str, int]]) -> Iterator[Row]:
        """The records from one position to another."""
        for topic, partitions in until.items():
            for partition, end in partitions.items():
                begin = since.get(topic, {}).get(partition, 0)
                if begin < end:
                    yield from self._log[topic, int(partition)][begin:end]

    def reader(self, link: Link, topics: Sequence[str], take: Callable[[Sequence[Fetched]], None]) -> SimReader:
        """A reader of these topics, not yet started."""
        return SimReader(self, link, frozenset(topics), take)

    def subscribe(self, reader: SimReader) -> None:
        """From now on it gets what is appended."""
        self._readers.append(reader)

    def unsubscribe(self, reader: SimReader) -> None:
        """It gets nothing any more."""
        if reader in self._readers:
            self._readers.remove(reader)


class SimProducer:
    """The `Sender` of one process: one request at a time, sent again until it is acknowledged, refused or too old.

    `stall`: called, once, when a record of this topic has just reached Kafka, before `send` returns. `around_answer`
    tells whoever sent of an answer, as the producer's thread does.
    """

    def __init__(self, kafka: SimKafka, link: Link, runs: Callable[[], bool]) -> None:
        """`runs`: whether the process runs at this moment; a paused one sends later, a dead one never."""
        self._kafka, self._link, self._runs = kafka, link, runs
        self._queue: list[tuple[str, bytes, str | None, float, Future[tuple[int, int]]]] = []
        self._busy = False
        self.dead = False
        self.stall: tuple[str, Callable[[], None]] | None = None
        self.appended_ms: dict[str, float] = {}  # topic -> when its newest record there was sent
        self.on_send: Callable[[str, Mapping[str, Any]], None] = lambda topic, record: None
        self.around_answer: Callable[[Callable[[], None]], None] = lambda tell: tell()

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        """See `controller.agent.connections.Sender`."""
        self.on_send(topic, value)
        result = Delivery()
        self._queue.append((topic, to_json(value), key, self._kafka.world.now_ms, result))
        if self._busy:
            return result
        self._busy = True
        if self.stall is not None and self.stall[0] == topic and self._kafka.reaches(self._link):
            (_, stall), self.stall = self.stall, None
            self._try()
            stall()
        else:
            self._later(1, 10, self._try)
        return result

    def _later(self, low_ms: float, high_ms: float, action: Callable[[], None]) -> None:
        world = self._kafka.world
        world.after(delay_ms(self._link.dice, low_ms, high_ms) * self._kafka.slow, action)

    def _try(self) -> None:
        world = self._kafka.world
        if self.dead:
            return
        if not self._runs() or (self._queue and not self._kafka.reaches(self._link) and not self._expired()):
            world.after(RETRY_MS, self._try)
            return
        if not self._queue:
            self._busy = False
            return
        topic, value, key, sent_ms, result = self._queue[0]
        if world.now_ms < self._link.refused_until_ms:
            self._queue.pop(0)
            self._kafka.counts[REFUSED] += 1
            result.set_exception(Refused(f"{topic}: not authorized"))
            self._later(0, 1, self._try)
            return
        if self._expired():
            self._queue.pop(0)
            self._kafka.counts[EXPIRED] += 1
            result.set_exception(Undelivered(f"{topic}: not acknowledged within {DELIVERY_TIMEOUT_MS:g} ms"))
            self._later(0, 1, self._try)
            return
        placed = self._kafka.append(topic, value, key)
        self.appended_ms[topic] = sent_ms
        if self._link.lost_acks and self._link.dice.random() < self._link.lost_acks:
            self._kafka.counts[ACK_LOST] += 1
            world.after(RETRY_MS, self._try)
            return
        self._later(1, 60, lambda: self._acknowledge(result, placed))

    def _acknowledge(self, result: Future[tuple[int, int]], placed: tuple[int, int]) -> None:
        if self.dead:
            return
        if not self._runs():
            self._kafka.world.after(RETRY_MS, lambda: self._acknowledge(result, placed))
            return
        self._queue.pop(0)
        self.around_answer(lambda: result.set_result(placed))
        self._try()

    def _expired(self) -> bool:
        return bool(self._queue) and self._kafka.world.now_ms - self._queue[0][3] > DELIVERY_TIMEOUT_MS


class SimReader:
    """See `controller.agent.connections.Reader`. `take` is called as by the reader's thread."""

    def __init__(
        self, kafka: SimKafka, link: Link, topics: frozenset[str], take: Callable[[Sequence[Fetched]], None]
    ) -> None:
        self.topics = topics
        self.runs: Callable[[], bool] = lambda: True
        self._kafka, self._link, self._take = kafka, link, take
        self._stopped = False
        self._waiting: dict[tuple[str, int], deque[tuple[float, Row]]] = defaultdict(deque)
        self._held_back: set[tuple[str, int]] = set()  # partitions that are tried again later
        self._recent: list[Row] = []

    def start(self, timeout_ms: int = 30_000) -> None:
        """Subscribe. Raises OSError without a connection."""
        if not self._kafka.reaches(self._link):
            raise OSError("Kafka does not answer")
        self._kafka.subscribe(self)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Unsubscribe."""
        self._stopped = True
        self._kafka.unsubscribe(self)

    def expect(self, row: Row) -> None:
        """The record was appended: it arrives later, after those before it in its partition."""
        world, place = self._kafka.world, (row.topic, row.partition)
        lost = self._kafka.lost_feed if row.topic == FEED else 0.0
        if lost and self._link.dice.random() < lost:
            self._kafka.counts[NEVER_READ] += 1
            return
        waiting = self._waiting[place]
        at_ms = world.now_ms + delay_ms(self._link.dice, 1, 400) * self._kafka.slow
        waiting.append((max(at_ms, waiting[-1][0]) if waiting else at_ms, row))
        world.at(waiting[-1][0], lambda: self._arrive(place))

    def read_again(self) -> None:
        """The connection was made anew: the newest records come again."""
        if self._recent and not self._stopped and self.runs():
            self._kafka.counts[READ_AGAIN] += 1
            self._take([Fetched(row.topic, row.value or b"") for row in self._recent])

    def _arrive(self, place: tuple[str, int]) -> None:
        """Take what has arrived of a partition, in order."""
        world, waiting = self._kafka.world, self._waiting[place]
        if self._stopped or not waiting or waiting[0][0] > world.now_ms or place in self._held_back:
            return
        if not self.runs() or not self._kafka.hears(self._link):
            self._held_back.add(place)
            world.after(RETRY_MS, lambda: self._try_again(place))
            return
        arrived = []
        while waiting and waiting[0][0] <= world.now_ms:
            arrived.append(waiting.popleft()[1])
        self._recent = [*self._recent, *arrived][-20:]
        self._take([Fetched(row.topic, row.value or b"") for row in arrived])

    def _try_again(self, place: tuple[str, int]) -> None:
        self._held_back.discard(place)
        self._arrive(place)
