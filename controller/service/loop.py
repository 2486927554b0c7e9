"""Processes one micro-batch of the control query, from Kafka rows to the journal's commit. Without Spark.

Order: drop and parse rows, run the step, write quarantine and evidence, commit to the journal, then update the state in
memory, the feed and the projections. Only the commit counts: earlier writes are harmless if it never happens, later
ones can be derived from the journal. Entries whose commit has an unknown outcome are committed again unchanged, never
computed again (`controller.service.tables`).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controller.bus.topics import TopicNames
from controller.control.step import Batch, Watch, step
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError, OutcomeUnknown
from controller.domain.events import Event, RoundFinished, Tick
from controller.domain.settings.agent_groups import NO_GROUP
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState, is_foreign
from controller.process import clock, failpoints
from controller.service.feed import Feed
from controller.service.metrics import ControlMetrics
from controller.service.records import Offsets, Parsed, Row, merge_offsets, parse_rows, parsers
from controller.service.tables import ControlTables

log = logging.getLogger(__name__)

# This many records without effect, mostly inventories, may be read again by the next start; heartbeats never are.
QUIET_RECORDS = 10_000
ROWS_WAIT_S = 3.0  # for a stop to wait for the rows of a batch: from a Kafka that hangs they come after minutes
OWNER_CHECK_MS = 30_000  # between two reads of the owner record while another journal's controller ticks


STOPPED = "the control query has stopped"


class Stopping(BallastError):
    """Raised in a batch after the stop, which must fail, or its records would count as read."""


@dataclass(slots=True)
class Claim:
    """What a controller has after it claimed the journal: its instance id, the initial state, Kafka's identity."""

    instance: str
    state: ClusterState
    kafka: dict[str, Any]


@dataclass(slots=True)
class Clocks:
    """`boot_ms` (CLOCK_BOOTTIME) is for leases, `wall_ms` for people. Those of this machine, unless given."""

    boot_ms: Callable[[], int] = clock.boot_ms
    wall_ms: Callable[[], int] = clock.wall_ms


class ControlLoop:
    """One running controller. `process` is called by one thread at a time, `stop` by any other."""

    def __init__(
        self,
        claim: Claim,
        tables: ControlTables,
        feed: Feed,
        names: TopicNames,
        settings: ControlSettings,
        clocks: Clocks,
        metrics: ControlMetrics,
        check_owner: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_owner` raises ForeignCommit when the topics now belong to another journal."""
        self.state = claim.state
        self.metrics = metrics
        self.failure: BaseException | None = None
        self.lagging: frozenset[str] = frozenset()  # brokers behind the journal, as of the newest batch
        self.last_batch_id = -1
        self._claim = claim
        self._tables = tables
        self._feed = feed
        self._settings = settings
        self._clocks = clocks
        self._parsers = parsers(names)
        # Heartbeats are read from their end (`service.reach`), wherever an earlier instance stopped.
        self._heartbeats = frozenset(names.all_heartbeats)
        offsets = self.state.offsets
        self._applied = merge_offsets({t: p for t, p in offsets.items() if t not in self._heartbeats}, {})
        self._unjournaled: Offsets = {}  # applied, but not in the journal's offsets yet
        self._quiet_records = 0  # how many records that are, without heartbeats
        self._rounds: queue.SimpleQueue[tuple[RoundFinished, int]] = queue.SimpleQueue()  # with how long it took
        self._batch_lock = threading.Lock()  # of a whole batch
        self._step_lock = threading.Lock()  # of all that comes after its rows
        self._stopped = False
        self._overtaken_judged = False
        self._check_owner, self._owner_checked_ms = check_owner, -OWNER_CHECK_MS
        self._now_ms = self.last_batch_ms = clocks.boot_ms()
        self._watch = Watch.fresh(self.state, self._now_ms, settings)

    @property
    def instance(self) -> str:
        """The controller's instance id."""
        return self._claim.instance

    def add_round(self, event: RoundFinished, duration_ms: int) -> None:
        """Queue a finished round for the next batch; called in the thread that listens to the worker."""
        self._rounds.put((event, duration_ms))
        self._feed.poke()

    @property
    def judged_ms(self) -> int | None:
        """When input was last read to its end, by the boot clock: leases were judged as of then."""
        return self._watch.judged_ms

    def process(self, collect: Callable[[], Sequence[Row]], batch_id: int) -> None:
        """Process one batch; `collect` reads its rows. An exception is kept in `failure`: query and process must
        end."""
        with self._batch_lock:
            if self._stopped or self.failure is not None:
                raise Stopping(STOPPED)
            rows = self._collect(collect)
            with self._step_lock:
                if self._stopped:  # the stop did not wait for the rows, which are read again by the next start
                    raise Stopping(STOPPED)
                try:
                    with self.metrics.batch_seconds.time():
                        self._process(rows, batch_id)
                except BaseException as error:
                    self.failure = error
                    raise
            # Read here, before Spark plans the next batch: every record appended before now is read in that batch.
            self._now_ms = self.last_batch_ms = self._clocks.boot_ms()
            if self._watch.awaits_expiry(self._now_ms, self._settings):
                self._feed.poke()

    @property
    def unjournaled(self) -> Offsets:
        """The offsets read since those in the journal; a clean stop journals them."""
        return self._unjournaled

    def stop(self) -> None:
        """Wait for the current batch and prevent any other. A batch that still waits for its rows is given up."""
        ended = self._batch_lock.acquire(timeout=ROWS_WAIT_S)
        with self._step_lock:
            self._stopped = True
        if ended:
            self._batch_lock.release()

    def _collect(self, collect: Callable[[], Sequence[Row]]) -> Sequence[Row]:
        try:
            with self.metrics.collect_seconds.time():
                return collect()
        except BaseException as error:
            if self._stopped:  # the query's stop has cancelled it
                raise Stopping(STOPPED) from error
            self.failure = error
            raise

    def _process(self, rows: Sequence[Row], batch_id: int) -> None:
        read_ms = self._clocks.boot_ms()
        found = parse_rows(rows, self._applied, self._parsers)
        self._report(found, rows)
        self._check_take_over(found.events, read_ms)
        failpoints.reach("control.before_step")
        finished = self._finished_rounds()
        events: list[Event] = [*found.events, *(event for event, _ in finished)]
        offsets = merge_offsets(self._unjournaled, found.offsets)
        quiet = self._quiet_records + sum(row.topic not in self._heartbeats for row in rows)
        batch = Batch(
            events=events,
            offsets=offsets,
            batch_id=batch_id,
            instance=self._claim.instance,
            at_ms=self._clocks.wall_ms(),
            # The first batch may be an unfinished one of the checkpoint, which was planned long before `now`.
            read_to_end=self.last_batch_id >= 0,
            kafka=self._claim.kafka,
            read_ms=read_ms,
            note_offsets=quiet >= QUIET_RECORDS,
        )
        result = step(self.state, self._watch, batch, self._now_ms, self._settings, quarantined=len(found.bad))
        failpoints.reach("control.before_evidence")
        if found.bad:
            self._tables.quarantine.write(found.bad, batch_id, batch.at_ms)
        if result.evidence:
            durations_ms = {event.result.round_id: ms for event, ms in finished}
            renamed = self._tables.append_evidence(result.evidence, batch.at_ms, durations_ms)
            result.entries = (
                [_rename_attempt(entry, renamed) for entry in result.entries] if renamed else result.entries
            )
        if result.decided is not None:
            self._tables.append_decisions(result.decided)
        failpoints.reach("control.before_journal")
        if result.entries:
            with self.metrics.commit_seconds.time():
                self._tables.commit(result.entries)
            failpoints.reach("control.before_feed")
            self._feed.publish(result.entries)
            self.metrics.count_committed(result.entries)
        self._tables.retry_decisions()
        self.state = result.state
        self._applied = merge_offsets(self._applied, found.offsets)
        journaled = any(entry.kind is Kind.OFFSETS for entry in result.entries)
        self._unjournaled, self._quiet_records = ({}, 0) if journaled else (offsets, quiet)
        self.last_batch_id = batch_id
        self.lagging = self._watch.lagging(self.state, self._settings)
        failpoints.reach("control.before_projection")
        self._tables.project(self.state)
        for evidence in result.evidence:
            self.metrics.rounds.count_round(evidence)
        if result.decided is not None:
            self.metrics.count_placed(result.decided)
            self.metrics.rounds.count_approved(result.decided)
        self.metrics.show_state(self.state, self._watch)
        placement = self._settings.placement
        self.metrics.state.show_followers(self.state, self._watch, len(self.lagging), placement, read_ms)

    def _check_take_over(self, events: Sequence[Event], now_ms: int) -> None:
        """Check the journal on signs of another controller: a tick of another instance, or a projection, beyond our
        seq.

        An idle controller would otherwise notice a take-over only at its next commit. Only the journal proves it, since
        ticks can be forged. A tick of another journal is no such sign; whether the topics now belong to that one is in
        the owner record. In topics of agent groups, only this controller's own ticks matter (`lease_expiry`): their
        agents may write there, and every controller ticks in the plain topic as well.
        """
        ticks = [e for e in events if isinstance(e, Tick) and e.instance != self.instance and e.group == NO_GROUP]
        strays = [tick for tick in ticks if is_foreign(self.state.journal_id, tick.journal_id)]
        if ticks:
            self.metrics.count_other_ticks(own=len(ticks) - len(strays), another=len(strays))
        if strays and now_ms - self._owner_checked_ms >= OWNER_CHECK_MS:
            self._check_owner()
            self._owner_checked_ms = now_ms
        hints = [
            f"a tick of {tick.instance} with seq {tick.seq}"
            for tick in ticks
            if tick.seq > self.state.seq and tick not in strays
        ]
        overtaken = self._tables.overtaken
        if overtaken is not None and not self._overtaken_judged:
            hints.append(str(overtaken))
            self._overtaken_judged = True
        if hints:
            try:
                self._tables.check_not_replaced()
            except OutcomeUnknown as error:
                log.error("%s; cannot tell whether it has taken over: %s", hints[0], error)
            else:
                log.warning("%s: the journal does not confirm it", hints[0])

    def _finished_rounds(self) -> list[tuple[RoundFinished, int]]:
        finished = []
        while not self._rounds.empty():
            finished.append(self._rounds.get())
        return finished

    def _report(self, found: Parsed, rows: Sequence[Row]) -> None:
        self.metrics.count_read(found, rows, self._clocks.wall_ms())
        for gap in found.gaps:
            log.error(
                "%s-%d: records %d to %d were removed from Kafka before they were read",
                gap.topic, gap.partition, gap.first, gap.next - 1,
            )  # fmt: skip
        for bad in found.bad[:10]:
            row = bad.row
            log.warning("%s-%d@%d quarantined: %s: %s", row.topic, row.partition, row.offset, bad.rule_id, bad.text)


def _rename_attempt(entry: Entry, renamed: Mapping[str, str]) -> Entry:
    """The entry with the attempt under which its evidence was finally stored."""
    if entry.attempt_id is None or entry.attempt_id not in renamed:
        return entry
    return replace(entry, attempt_id=renamed[entry.attempt_id])
