"""Follows the journal for an agent: `journal-feed` and `broker-events` from Kafka, the table for the rest.

Kafka is subscribed before the journal is read, so nothing is missed in between. Records are parsed in the reader's
thread and passed to the loop in one hop; the table is read in a worker thread, so a slow table delays neither
heartbeats nor `released` nor the feed. Invariant: `state` changes in the loop only, by exactly seq + 1, or as a whole
(`on_jump`).

The feed is trusted only where it continues the journal. An entry counts when it comes from the controller that holds
the journal as far as it was read; the first entry of that controller's successor is read from the table. What that
controller sent last is the newest seq that it stands by. A larger one that somebody else names counts until the
controller denies it and the table does not have it: it may be a successor's, while the old controller goes on speaking.
Records that name another journal are ignored. When an entry contradicts one that was applied, one of the two was
forged: the table is loaded again as a whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from controller.agent.connections import Journal, Read, Reader
from controller.agent.feed import Feed, read_feed
from controller.agent.feed_health import FeedHealth
from controller.agent.metrics import AgentMetrics
from controller.agent.signal import Signal
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry
from controller.domain.errors import BadRecord, InvariantBroken
from controller.domain.events import BrokerEvent, parse_broker_event
from controller.domain.state import ClusterState, is_foreign

log = logging.getLogger(__name__)


AHEAD_KEPT = 10_000  # entries kept beyond a gap; the rest is read from the table
FED_KEPT = 200
RECENT_KEPT = 1_000  # applied entries that later records of the feed are compared with
RELOAD_PAUSE_S = 1.0  # between two loads of the table as a whole
CLAIMANTS = 8  # controllers whose words are kept; there are two at most, as far as nobody lies
GAP_PAUSES_S = (0.02, 0.04, 0.08, 0.16, 0.32, 0.5)  # between two reads for an entry that is not in the table yet


@dataclass(slots=True)
class _Claim:
    """The newest seq that a controller has named, and what speaks against it."""

    seq: int
    denied: bool = False  # by the controller that holds the journal, as far as it was read
    not_found: bool = False  # in a table that was read after the claim was heard


class Watcher:
    """Follows the journal for one agent. Everything but `take` and the table's reads runs in the event loop."""

    def __init__(
        self,
        journal: Journal,
        feed_topic: str,
        *,
        poll_ms: int,
        health: FeedHealth,
        on_applied: Callable[[Sequence[Entry]], None],
        on_jump: Callable[[], None],
        on_event: Callable[[BrokerEvent], None],
        on_failure: Callable[[BaseException], None],
        boot_ms: Callable[[], int],
        metrics: AgentMetrics,
        speaks_for: Callable[[str, str], bool] = lambda topic, broker: True,
    ) -> None:
        """`on_applied` gets entries after they changed `state`; `on_jump` is called when `state` was replaced.

        `speaks_for`: whether an event of a broker counts in this topic (`TopicNames.speaks_for`).
        """
        self.state = ClusterState()
        self.ready = False  # the journal has been read once
        self.known_seq = 0
        self.health = health
        self._journal = journal
        self._feed_topic = feed_topic
        self._poll_ms = poll_ms
        self._on_applied, self._on_jump, self._on_event = on_applied, on_jump, on_event
        self._on_failure = on_failure
        self._boot_ms = boot_ms
        self._metrics = metrics
        self._speaks_for = speaks_for
        self._claims: dict[str, _Claim] = {}  # by instance
        self._early: list[Feed] = []  # heard before the journal was read, maybe of another one
        self._ahead: dict[int, Entry] = {}
        self._read_seq = 0  # the newest entry that was read from the table
        self._recent: dict[int, Entry] = {}
        self._contradicted = False  # by the feed: the table must be loaded again
        self._fed: list[Entry] = []  # applied from the feed, not yet known to the follower
        self._fed_ms = 0
        self._gap = Signal()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._table = ThreadPoolExecutor(1, thread_name_prefix="journal-table")
        self.heard_journal_id = ""  # of the newest feed record that was not ignored
        self.stray: tuple[str, int] | None = None  # another journal whose controller sends here, and when last
        self.failing = ""  # why the table cannot be read, empty when it can

    async def start(self, reader: Reader) -> None:
        """Subscribe, then read the journal, retrying until that succeeds. The reader passes its batches to `take`.

        Tables without a journal are read with success: it may begin later, and the feed or the next poll then tells.
        """
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(None, reader.start)
        while not await self._read_table(self._journal.bootstrap):
            await asyncio.sleep(self._poll_ms / 1000)
        self._read_seq = self._journal.state.seq
        if not self._read_seq:
            place = self._journal.place
            log.warning("no journal in %s yet: waiting for a controller; if one runs, check tables.root", place)
        self._replace_state()

    async def run(self) -> None:
        """Read the table on a gap, and every `poll_ms` while the feed is silent. Runs until cancelled."""
        in_vain = 0
        while True:
            if not await self._gap.wait(self._poll_ms / 1000) and self._boot_ms() - self._fed_ms < self._poll_ms:
                continue
            self._gap.clear()
            if self._contradicted:
                await self._reload()
                continue
            self._pass_on_fed()
            if not await self._read_table(partial(self._catch_up, self.known_seq)):
                await asyncio.sleep(min(self._poll_ms, 500) / 1000)
            if self.state.seq < self.known_seq:
                await asyncio.sleep(GAP_PAUSES_S[min(in_vain, len(GAP_PAUSES_S) - 1)])  # the table was not there yet
                in_vain += 1
                self._gap.set()
            else:
                in_vain = 0

    async def _reload(self) -> None:
        """Load the newest snapshot and the journal after it, in place of what the feed said."""
        self._fed.clear()
        if await self._read_table(self._journal.bootstrap):
            self._contradicted = False
            self._recent.clear()
            self._read_seq = self._journal.state.seq
            try:
                self._replace_state()
            except Exception as error:
                self._on_failure(error)
        else:
            self._gap.set()
        await asyncio.sleep(RELOAD_PAUSE_S)

    def close(self) -> None:
        """Start no further reads of the table."""
        self._table.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------- the reader's thread

    def take(self, records: Sequence[Read]) -> None:
        """Called by the reader in its own thread with each batch."""
        parsed: list[Feed | BrokerEvent] = []
        for record in records:
            try:
                feed = record.topic == self._feed_topic
                parsed.append(read_feed(record.value) if feed else self._read_event(record))
            except BadRecord as error:
                self._metrics.bad_records.labels(error.rule_id).inc()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, parsed)

    def _read_event(self, record: Read) -> BrokerEvent:
        """Raises BadRecord, also for an event of a broker whose agent may not write to that topic."""
        event = parse_broker_event(record.value)
        if not self._speaks_for(record.topic, event.session.broker):
            raise BadRecord("group_mismatch", f"{record.topic} speaks for {event.session.broker}")
        return event

    # ---------------------------------------------------------------- the loop

    def _deliver(self, parsed: Sequence[Feed | BrokerEvent]) -> None:
        now = self._boot_ms()
        self.health.on_record(now)
        try:
            for record in parsed:
                if isinstance(record, BrokerEvent):
                    self._on_event(record)
                elif self.ready:
                    self._follow(record)
                elif len(self._early) < AHEAD_KEPT:
                    self.heard_journal_id = record.journal_id or ""
                    self._early.append(record)
            if len(self._fed) >= FED_KEPT:
                self._pass_on_fed()
            self._measure()
        except Exception as error:
            self._on_failure(error)

    def _follow(self, feed: Feed) -> None:
        if is_foreign(self.state.journal_id, feed.journal_id):
            self._note_stray(feed)
        else:
            self._fed_ms = self._boot_ms()
            self._hear(feed)
            self._fed += self._apply(feed.entries)

    def _hear(self, feed: Feed) -> None:
        """Note the newest seq that a controller names. Its records arrive in order, and its entries stay: when it names
        a smaller one than before, that one was forged. Only a record that was repeated in an outage may come late: the
        next one corrects it."""
        self.heard_journal_id = feed.journal_id or ""
        in_charge = feed.instance == self.state.instance
        before = self._claims.get(feed.instance)
        heard = before is not None or in_charge or len(self._claims) < CLAIMANTS
        if heard and (before is None or before.seq != feed.seq):
            self._claims[feed.instance] = _Claim(feed.seq)
        if in_charge:
            for instance, claim in self._claims.items():
                claim.denied = claim.denied or (instance != feed.instance and claim.seq > feed.seq)
        self._weigh()

    def _weigh(self) -> None:
        """Know the largest seq that is claimed and not disproved; forget claims that are settled."""
        applied = self.state.seq
        self._claims = {
            instance: claim
            for instance, claim in self._claims.items()
            if claim.seq > applied and not (claim.denied and claim.not_found)
        }
        newest = max((applied, *(claim.seq for claim in self._claims.values())))
        if newest < self.known_seq:
            log.warning("the feed named seq %d, the newest one is %d", self.known_seq, newest)
            self._metrics.bad_records.labels("feed_beyond_journal").inc()
            self._ahead = {seq: entry for seq, entry in self._ahead.items() if seq <= newest}
        self.known_seq = newest

    def _note_stray(self, feed: Feed) -> None:
        """A controller of another journal sends on these topics; its records are ignored."""
        self._metrics.bad_records.labels("feed_of_another_journal").inc()
        if self.stray is None:
            log.error(
                "controller %s sends on these topics for journal %s, this agent follows %s: ignoring it",
                feed.instance, feed.journal_id, self.state.journal_id,
            )  # fmt: skip
        self.stray = (str(feed.journal_id), self._boot_ms())

    def _follows(self, entry: Entry) -> bool:
        """Whether the next entry may be applied: it was read from the table, or is of the journal's controller."""
        return entry.seq <= self._read_seq or self.state.instance in ("", entry.instance)

    def _apply(self, entries: Iterable[Entry]) -> list[Entry]:
        """Apply the entries that follow the state, keep those beyond a gap, and notify `on_applied`."""
        for entry in entries:
            if entry.seq > self.state.seq and len(self._ahead) < AHEAD_KEPT:
                self._ahead[entry.seq] = entry
            elif self._read_seq < entry.seq <= self.state.seq and self._recent.get(entry.seq, entry) != entry:
                self._contradict(entry, "another one was applied")
        applied: list[Entry] = []
        if self._contradicted:
            return applied
        while (following := self._ahead.pop(self.state.seq + 1, None)) is not None and self._follows(following):
            try:
                apply_in_place(self.state, following)
            except Exception as error:
                if following.seq <= self._read_seq:
                    raise  # the journal contradicts itself
                self._contradict(following, f"{type(error).__name__}: {error}")
                break
            self._recent[following.seq] = following
            applied.append(following)
        while len(self._recent) > RECENT_KEPT:
            del self._recent[next(iter(self._recent))]
        if applied:
            self._on_applied(applied)
        return applied

    def _contradict(self, entry: Entry, why: str) -> None:
        """The feed contradicts this agent's view: have the table loaded again."""
        log.error("feed entry %d, sent as %s: %s; loading the table again", entry.seq, entry.instance, why)
        self._metrics.bad_records.labels("feed_contradicts_journal").inc()
        self._contradicted = True
        self._gap.set()

    def _measure(self) -> None:
        self._weigh()
        if self.state.seq < self.known_seq:
            self._gap.set()
        self.health.on_seq(self.known_seq, self.state.seq, self._boot_ms())
        self._metrics.applied_seq.set(self.state.seq)
        self._metrics.known_seq.set(self.known_seq)

    async def _read_table(self, read: Callable[[], object]) -> bool:
        """Run one read in the worker thread and apply its result; False when the table could not be read."""
        assert self._loop is not None
        heard = list(self._claims.values())  # what was committed before it was said is in the table by now
        try:
            found = await self._loop.run_in_executor(self._table, read)
        except InvariantBroken as error:
            self._on_failure(error)
            return False
        except Exception as error:
            if not self.failing:
                log.warning("the journal's table cannot be read: %s: %s", type(error).__name__, error)
            self.failing = f"{type(error).__name__}: {error}"
            self._metrics.catch_ups.labels("failed").inc()
            return False
        if self.failing:
            log.warning("the journal's table can be read again")
        self.failing = ""
        self._metrics.catch_ups.labels("done").inc()
        for claim in heard:
            claim.not_found = True  # those that were found count no more: the state has them
        if isinstance(found, list):
            self._caught_up(found)
        return True

    def _pass_on_fed(self) -> None:
        fed, self._fed = self._fed, []
        if fed and self._loop is not None:
            self._loop.run_in_executor(self._table, self._journal.offer, fed)

    def _catch_up(self, known_seq: int) -> list[Entry]:
        """In the worker thread. A log whose files were cleaned up looks like one without news: only who says that there
        are some has the whole table read."""
        self._journal.hear(known_seq)
        return list(self._journal.catch_up())

    def _caught_up(self, entries: list[Entry]) -> None:
        try:
            self._read_seq = max(self._read_seq, entries[-1].seq if entries else 0)
            self._ahead.update({entry.seq: entry for entry in entries if entry.seq > self.state.seq})
            self._apply(())
            if self._journal.state.seq > self.state.seq:
                self._replace_state()
            self._measure()
        except Exception as error:
            self._on_failure(error)

    def _replace_state(self) -> None:
        """Take over the follower's state, which is ahead of what this agent can apply entry by entry."""
        if is_foreign(self.state.journal_id, self._journal.state.journal_id):
            raise InvariantBroken(
                f"the tables now hold journal {self._journal.state.journal_id}, this agent follows "
                f"{self.state.journal_id}: start it again"
            )
        self.state = self._journal.state.copy()
        self._ahead = {seq: entry for seq, entry in self._ahead.items() if seq > self.state.seq}
        self.ready = True
        self._on_jump()
        early, self._early = self._early, []
        for record in early:
            self._follow(record)
        self._fed += self._apply(())
        self._measure()
