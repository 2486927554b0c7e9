"""Reads topics in a thread of its own, from their end, their beginning, or given offsets.

The reader has no consumer group: every reader gets every record of its topics, in order per partition. It keeps its own
positions, so a lost connection or a broker restart delays records but loses none. Gaps are counted, never hidden.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from controller.bus.cluster import NO_SETTINGS, open_consumer
from controller.bus.failures import PAGE, READ, describe_refusal, telling_refusals
from controller.bus.security import check_client_settings
from controller.bus.topics import MAX_RECORD_BYTES
from controller.domain.errors import BallastError, ConfigError
from controller.process.clock import boot_ms

log = logging.getLogger(__name__)

Start = Literal["end", "beginning"] | Mapping[tuple[str, int], int]
POLL_MS = 200
# How often the reader asks for the end offsets, which proves that every partition's leader answers, even without
# records.
PROBE_EVERY_MS = 1_000
PROBE_TIMEOUT_MS = 5_000
BACKOFF_S = (0.1, 0.2, 0.5, 1.0)


class KafkaRecord(NamedTuple):
    """One record. `timestamp_ms` is Kafka's append time, or the recording's on CreateTime topics."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes


class TopicReader:
    """Passes batches of records to `on_batch`, in the reader's thread. The number of partitions must not change."""

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        on_batch: Callable[[list[KafkaRecord]], None],
        *,
        start: Start = "end",
        settings: Mapping[str, object] = NO_SETTINGS,
        name: str = "topic-reader",
        on_failure: Callable[[Exception], object] | None = None,
        clock_ms: Callable[[], int] = boot_ms,
    ) -> None:
        """`start`: given offsets are the next to read; partitions without one are read from the beginning.

        An exception in `on_batch` ends the reader; it is kept in `failure`, logged and passed to `on_failure`.
        """
        check_client_settings(settings)
        self.failure: Exception | None = None
        self.gaps = 0
        self.reconnects = 0
        self._bootstrap = bootstrap
        self._topics = list(topics)
        self._on_batch = on_batch
        self._start_from = start
        self._settings = dict(settings)
        self._name = name
        self._on_failure = on_failure
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._clock_ms = clock_ms
        self._last_contact_ms = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, timeout_ms: int = 30_000) -> None:
        """Determine the starting offsets, then start the thread: records appended after this returns are all delivered.

        Raises KafkaUnavailable when no Kafka answers in time, NoRight, ConfigError for a topic that does not exist.
        """
        consumer = self._connect(timeout_ms)
        try:
            asked_ms = self._clock_ms()
            with telling_refusals(self._settings, READ):
                self._positions = self._first_positions(consumer)
            self._last_contact_ms = asked_ms
        finally:
            consumer.close()
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop the thread after the current batch; returns at once when called from that thread."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def last_contact_ms(self) -> int:
        """When the newest answer of all leaders was requested (CLOCK_BOOTTIME); quiet topics answer as well."""
        return self._last_contact_ms

    def behind(self) -> int:
        """How many records are not delivered yet, as of the last contact."""
        return sum(max(0, end - self._positions.get(tp, end)) for tp, end in self._ends.items())

    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset by (topic, partition): for all records below, `on_batch` has returned."""
        return {(tp.topic, tp.partition): offset for tp, offset in self._positions.items()}

    def _connect(self, timeout_ms: int) -> Any:
        return open_consumer(
            self._bootstrap,
            self._name,
            self._settings,
            timeout_ms,
            auto_offset_reset="none",  # a lost position is a gap to be counted, not to be skipped silently
            max_poll_records=5_000,
            max_partition_fetch_bytes=MAX_RECORD_BYTES,
            # Also the pause of a poll that has nothing to fetch yet, as right after a seek.
            retry_backoff_ms=20,
            reconnect_backoff_max_ms=1_000,
        )

    def _first_positions(self, consumer: Any) -> dict[TopicPartition, int]:
        partitions = [
            TopicPartition(topic, number)
            for topic in self._topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        absent = set(self._topics) - {tp.topic for tp in partitions}
        if absent:
            raise ConfigError(describe_absent(absent, self._bootstrap))
        if self._start_from == "end":
            return dict(consumer.end_offsets(partitions))
        beginning = dict(consumer.beginning_offsets(partitions))
        if isinstance(self._start_from, str):
            return beginning
        return {tp: self._start_from.get((tp.topic, tp.partition), beginning[tp]) for tp in partitions}

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            consumer = None
            try:
                consumer = self._connect(10_000)
                consumer.assign(list(self._positions))
                for tp, offset in self._positions.items():
                    consumer.seek(tp, offset)
                failures = 0
                self._poll_until_stopped(consumer)
            except _CallbackFailed as failed:
                self._fail(failed.cause)
                return
            except Exception as error:
                self.reconnects += 1
                why = describe_refusal(error, self._settings, READ) or f"{type(error).__name__}: {error}"
                log.warning("%s: %s; connecting again", self._name, why)
                self._stopping.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
            finally:
                if consumer is not None:
                    self._close(consumer)

    def _close(self, consumer: Any) -> None:
        """Close without raising: an exception would end the thread unnoticed."""
        try:
            consumer.close()
        except Exception as error:
            log.warning("%s: closing a connection: %s: %s", self._name, type(error).__name__, error)

    def _poll_until_stopped(self, consumer: Any) -> None:
        while not self._stopping.is_set():
            if self._clock_ms() - self._last_contact_ms >= PROBE_EVERY_MS:
                self._probe(consumer)
            try:
                polled = consumer.poll(timeout_ms=POLL_MS)
            except OffsetOutOfRangeError:
                self._step_over_gap(consumer)
                continue
            if polled:
                self._hand_over(polled)

    def _probe(self, consumer: Any) -> None:
        asked_ms = self._clock_ms()
        self._ends = consumer.end_offsets(list(self._positions), timeout_ms=PROBE_TIMEOUT_MS)
        self._last_contact_ms = asked_ms

    def _hand_over(self, polled: Mapping[TopicPartition, list[Any]]) -> None:
        batch = [
            KafkaRecord(r.topic, r.partition, r.offset, r.timestamp, r.value)
            for records in polled.values()
            for r in records
        ]
        try:
            self._on_batch(batch)
        except Exception as error:
            raise _CallbackFailed(error) from error
        for tp, records in polled.items():
            self._positions[tp] = records[-1].offset + 1

    def _step_over_gap(self, consumer: Any) -> None:
        """Records were removed by retention, or Kafka was wiped: continue at the oldest record of the partition."""
        beginning, end = consumer.beginning_offsets(list(self._positions)), consumer.end_offsets(list(self._positions))
        for tp, offset in self._positions.items():
            if not beginning[tp] <= offset <= end[tp]:
                self.gaps += 1
                log.warning("%s: offset %d of %s-%d is gone, continuing at %d", self._name, offset, *tp, beginning[tp])
                self._positions[tp] = beginning[tp]
                consumer.seek(tp, beginning[tp])

    def _fail(self, error: Exception) -> None:
        self.failure = error
        log.error("%s: the batch callback failed, the reader stops", self._name, exc_info=error)
        if self._on_failure is not None:
            self._on_failure(error)


def describe_absent(topics: Iterable[str], bootstrap: str) -> str:
    """Which topics are not to be seen, and what to do about it, in one line."""
    return (
        f"topic {', '.join(sorted(topics))} does not exist at {bootstrap}, or this login has no right on it: the "
        "controller creates the topics when it starts (`ballast run`); else check kafka.topic_prefix and "
        f"kafka.agent_groups, and the rights (`ballast kafka acls` prints them, {PAGE} explains them)"
    )


class _CallbackFailed(BallastError):
    """Carries an exception of `on_batch` past the reconnect loop."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause
