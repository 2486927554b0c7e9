"""What an agent believes of the journal feed, on a real journal table: what goes on from the journal, and nothing else.

The records are handed over as Kafka's reader does; whoever may write to the topic could have sent them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from controller.agent.feed_health import FeedHealth, Hearing
from controller.agent.metrics import AgentMetrics
from controller.agent.watcher import Watcher
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot

FEED = "journal-feed"
LEASE_MS = 6_000
PATIENCE_S = 60.0


class Said(NamedTuple):
    topic: str
    value: bytes


class NoKafka:
    """The reader's place: records are handed over by the test."""

    def start(self, timeout_ms: int = 30_000) -> None: ...

    def stop(self, timeout_s: float = 5.0) -> None: ...


class Stage:
    """A journal of a controller, and the watcher of one agent that has read it."""

    def __init__(self, root: Path) -> None:
        TableRoot(root).create_all()
        self._root = root
        self._ledger = Journal(root)
        self.now_ms = 1_000_000
        self.failures: list[BaseException] = []
        self.applied: list[int] = []
        self.metrics = AgentMetrics()
        self.health = FeedHealth(LEASE_MS, self.now_ms)
        self.state = ClusterState()
        self.watcher = Watcher(
            Follower(root),
            FEED,
            poll_ms=300,
            health=self.health,
            on_applied=lambda entries: self.applied.extend(e.seq for e in entries),
            on_jump=lambda: None,
            on_event=lambda event: None,
            on_failure=self.failures.append,
            boot_ms=lambda: self.now_ms,
            metrics=self.metrics,
        )

    def commit(self, kind: Kind, instance: str = "one", **fields: object) -> Entry:
        """One more entry in the table; the feed has not said so yet."""
        entry = Entry(self.state.seq + 1, kind, instance, self.state.seq, 0, **fields)  # type: ignore[arg-type]
        self._ledger.commit([entry], instance, entry.batch)
        apply_in_place(self.state, entry)
        return entry

    def tell(self, *entries: Entry, instance: str = "one") -> None:
        """A commit's record on the feed."""
        self._say({"v": 1, "instance": instance, "entries": [entry.to_row() for entry in entries]})

    def repeat(self, seq: int | None = None, instance: str = "one") -> None:
        """What a controller says each second."""
        self._say({"v": 1, "instance": instance, "seq": self.state.seq if seq is None else seq})

    def _say(self, record: object) -> None:
        self.watcher.take([Said(FEED, json.dumps(record).encode())])

    def clean_up_log(self) -> None:
        """Remove the files of all commits but the newest, as the controller does minutes after a checkpoint."""
        TableRoot(self._root).open("journal").create_checkpoint()
        for file in sorted((self._root / "journal" / "_delta_log").glob("*.json"))[:-1]:
            file.unlink()

    async def until(self, holds: Callable[[], object]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not holds():
            assert asyncio.get_running_loop().time() < end, (self.watcher.state.seq, self.watcher.known_seq)
            assert self.failures == []
            await asyncio.sleep(0.01)

    async def follows(self) -> None:
        """It has all there is, and knows of nothing else."""
        await self.until(lambda: self.watcher.state == self.state and self.watcher.known_seq == self.state.seq)

    def hearing_a_lease_later(self) -> Hearing:
        """What is judged after a lease in which nothing but the controller's repetitions came."""
        self.now_ms += LEASE_MS
        self.health.on_record(self.now_ms)
        return self.health.judge(self.now_ms)


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    """Runs a scenario on a journal whose controller is `one`."""

    async def run(scenario: Callable[[Stage], Awaitable[None]]) -> None:
        stage = Stage(tmp_path / "tables")
        stage.commit(Kind.CONTROLLER_STARTED)
        await stage.watcher.start(NoKafka())
        running = asyncio.create_task(stage.watcher.run())
        try:
            await scenario(stage)
            assert stage.failures == []
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            stage.watcher.close()

    return lambda scenario: asyncio.run(run(scenario))


Play = Callable[[Callable[[Stage], Awaitable[None]]], None]


@pytest.mark.parametrize("instance", ["one", "ghost", ""])
def test_a_seq_that_somebody_made_up_is_forgotten_when_the_controller_speaks_again(play: Play, instance: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.repeat(seq=2**40, instance=instance)
        await stage.until(lambda: stage.watcher.known_seq == 2**40)
        stage.repeat()
        await stage.follows()
        for _ in range(3):  # it insists
            stage.repeat(seq=2**40, instance=instance)
            stage.repeat()
        await stage.follows()
        assert stage.hearing_a_lease_later() is not Hearing.END_SESSION, "no session ends by it"
        assert stage.health.hears(stage.now_ms - 1), "and the next one could begin"
        stage.tell(stage.commit(Kind.MODE, data={"mode": "live"}))
        await stage.follows()

    play(scenario)


def test_a_seq_that_the_controller_stands_by_ends_the_session(play: Play) -> None:
    """It has journaled it, and this agent's table does not have it: here it is not even committed."""

    async def scenario(stage: Stage) -> None:
        for _ in range(3):
            stage.repeat(seq=stage.state.seq + 1)
        await stage.until(lambda: stage.watcher.known_seq == stage.state.seq + 1)
        assert stage.hearing_a_lease_later() is Hearing.END_SESSION

    play(scenario)


def test_an_old_controller_that_goes_on_speaking_hides_no_successor(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulated deployment, seed 881 of that day: neither the table nor one of two voices settles it."""

    async def scenario(stage: Stage) -> None:
        def unreadable() -> list[Entry]:
            raise OSError("the store does not answer")

        monkeypatch.setattr(stage.watcher._journal, "catch_up", unreadable)
        seconds = LEASE_MS // 1_000
        for _ in range(seconds):
            for seq, instance in ((stage.state.seq + 1, "two"), (stage.state.seq, "one")):
                stage.repeat(seq=seq, instance=instance)
                await asyncio.sleep(0.02)  # for the loop, which the records reach at once
            assert stage.health.judge(stage.now_ms) is not Hearing.END_SESSION
            stage.now_ms += 1_000
        stage.health.on_record(stage.now_ms)
        assert stage.health.judge(stage.now_ms) is Hearing.END_SESSION

    play(scenario)


def test_entries_beyond_the_journal_are_forgotten_with_their_seq(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        seq = stage.state.seq
        forged = [Entry(seq + n, Kind.MODE, "one", seq + n, 0, data={"mode": "paused"}) for n in (2, 3, 5)]
        stage.tell(*forged)
        await stage.until(lambda: stage.watcher.known_seq == seq + 5)
        stage.repeat()
        await stage.follows()
        for _ in range(6):
            stage.tell(stage.commit(Kind.MODE, data={"mode": "live"}))
        await stage.follows()
        assert stage.watcher.state.mode == "live"
        assert stage.applied == list(range(seq + 1, seq + 7))

    play(scenario)


def test_the_next_entry_of_somebody_else_is_not_applied(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        seq = stage.state.seq
        stage.tell(Entry(seq + 1, Kind.MODE, "ghost", 0, 0, data={"mode": "paused"}), instance="ghost")
        await stage.until(lambda: stage.watcher.known_seq == seq + 1)
        assert (stage.watcher.state.seq, stage.watcher.state.mode) == (seq, "shadow")
        stage.tell(stage.commit(Kind.MODE, data={"mode": "live"}))
        await stage.follows()
        assert stage.watcher.state.mode == "live"

    play(scenario)


def test_the_next_controller_is_believed_once_the_table_has_its_first_word(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        started = stage.commit(Kind.CONTROLLER_STARTED, instance="two")
        mode = stage.commit(Kind.MODE, instance="two", data={"mode": "live"})
        stage.tell(started, mode, instance="two")
        await stage.follows()
        reads = stage.metrics.catch_ups.labels("done")._value.get()
        stage.repeat(seq=1, instance="one")  # the old one, which slept
        for _ in range(20):
            stage.tell(stage.commit(Kind.MODE, instance="two", data={"mode": "paused"}), instance="two")
            await stage.follows()
        assert stage.metrics.catch_ups.labels("done")._value.get() - reads < 20, "from the feed, not from the table"

    play(scenario)


def test_a_forged_entry_that_was_believed_is_undone_when_the_real_one_comes(play: Play) -> None:
    """Who can read the feed can forge the next entry of its controller; not for long."""

    async def scenario(stage: Stage) -> None:
        seq = stage.state.seq
        forged = [Entry(seq + n, Kind.MODE, "one", seq + n, 0, data={"mode": "paused"}) for n in (1, 2, 3)]
        stage.tell(*forged)
        await stage.until(lambda: stage.watcher.state.mode == "paused")
        stage.tell(stage.commit(Kind.MODE, data={"mode": "live"}))
        await stage.until(lambda: stage.watcher.state.mode == "live")
        stage.repeat()
        await stage.follows()
        for _ in range(4):
            stage.tell(stage.commit(Kind.MODE, data={"mode": "paused"}))
        await stage.follows()

    play(scenario)


def test_a_forged_entry_is_undone_also_when_the_table_was_polled_in_between(play: Play) -> None:
    """What was fed and passed on to the follower has not been read from the table."""

    async def scenario(stage: Stage) -> None:
        seq = stage.state.seq
        stage.tell(*(Entry(seq + n, Kind.MODE, "one", seq + n, 0, data={"mode": "paused"}) for n in (1, 2, 3)))
        await stage.until(lambda: stage.watcher.state.mode == "paused")
        reads = stage.metrics.catch_ups.labels("done")._value.get()
        stage.now_ms += 1_000  # the feed has been silent for longer than the pause between two polls
        await stage.until(lambda: stage.metrics.catch_ups.labels("done")._value.get() > reads)
        stage.tell(stage.commit(Kind.MODE, data={"mode": "live"}))
        await stage.until(lambda: stage.watcher.state.mode == "live")
        stage.repeat()
        await stage.follows()

    play(scenario)


def test_a_forged_entry_that_cannot_be_applied_ends_no_agent(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        seq = stage.state.seq
        whole = "t/none/0x00000000_0xffffffff"
        stage.tell(Entry(seq + 1, Kind.OWNERSHIP, "one", seq + 1, 0, bundle=whole, state="free", epoch=1))
        await stage.until(lambda: stage.metrics.bad_records.labels("feed_contradicts_journal")._value.get() == 1)
        stage.repeat()
        await stage.follows()
        stage.tell(stage.commit(Kind.MODE, data={"mode": "live"}))
        await stage.follows()

    play(scenario)


def test_a_journal_that_contradicts_itself_ends_the_agent(play: Play) -> None:
    """What the table says cannot be undone by reading it again."""

    async def scenario(stage: Stage) -> None:
        entry = Entry(stage.state.seq + 1, Kind.SESSION_ENDED, "one", 9, 0, session="b:1#1.n.1", broker="b:1")
        stage._ledger.commit([entry], "one", 9)
        stage.repeat(seq=entry.seq)
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not stage.failures:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.01)
        assert "b:1#1.n.1" in str(stage.failures.pop())
        stage.failures.clear()

    play(scenario)


def test_what_is_told_again_contradicts_nothing(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        data = {"namespace": "t/n", "bundles": ["t/n/0x00000000_0xffffffff"]}
        entries = [stage.commit(Kind.NAMESPACE_CREATED, data=data)]
        stage.repeat()
        await stage.follows()  # this one from the table
        entries += [stage.commit(Kind.MODE, reason="so", data={"mode": "live"}) for _ in range(3)]
        stage.tell(*entries)
        await stage.follows()
        stage.tell(*entries)
        stage.tell(stage.commit(Kind.MODE, data={"mode": "paused"}))
        await stage.follows()
        assert stage.metrics.bad_records.labels("feed_contradicts_journal")._value.get() == 0

    play(scenario)


def test_what_names_another_journal_is_ignored_and_named(play: Play) -> None:
    async def scenario(stage: Stage) -> None:
        ours = {"journal_id": "ours"}
        stage.commit(Kind.CONTROLLER_STARTED, "two", data=ours)
        await stage.follows()
        stage._say({"v": 1, "instance": "stray", "journal_id": "other", "seq": 99})
        forged = Entry(stage.state.seq + 1, Kind.MODE, "two", 9, 0, data={"mode": "live"})
        stage._say({"v": 1, "instance": "two", "journal_id": "other", "entries": [forged.to_row()]})
        await stage.until(lambda: stage.watcher.stray == ("other", stage.now_ms))
        assert (stage.watcher.known_seq, stage.watcher.state) == (stage.state.seq, stage.state)
        assert stage.metrics.bad_records.labels("feed_of_another_journal")._value.get() == 2
        entry = stage.commit(Kind.MODE, "two", data={"mode": "live"})
        stage._say({"v": 1, "instance": "two", **ours, "entries": [entry.to_row()]})
        await stage.follows()
        older = stage.commit(Kind.MODE, "two", data={"mode": "paused"})
        stage.tell(older, instance="two")  # of a version that names no journal
        await stage.follows()

    play(scenario)


def test_what_is_heard_before_the_journal_was_read_counts_only_if_it_is_of_that_journal(tmp_path: Path) -> None:
    async def run() -> None:
        stage = Stage(tmp_path / "tables")
        stage.commit(Kind.CONTROLLER_STARTED, data={"journal_id": "ours"})
        forged = Entry(2, Kind.MODE, "one", 9, 0, data={"mode": "live"})
        true = Entry(2, Kind.MODE, "one", 1, 0, data={"mode": "paused"})

        class Early(NoKafka):
            def start(self, timeout_ms: int = 30_000) -> None:
                for journal_id, entry in (("other", forged), ("ours", true)):
                    record = {"v": 1, "instance": "one", "journal_id": journal_id, "entries": [entry.to_row()]}
                    stage._say(record)

        await stage.watcher.start(Early())
        await stage.until(lambda: stage.watcher.state.seq == 2)
        stage.watcher.close()
        assert stage.watcher.state.mode == "paused"
        assert stage.watcher.stray == ("other", stage.now_ms)

    asyncio.run(run())


@pytest.mark.parametrize("created", [True, False])
def test_tables_without_a_journal_are_named_once_with_their_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, created: bool
) -> None:
    async def run() -> None:
        stage = Stage(tmp_path / "tables")
        if not created:
            shutil.rmtree(tmp_path / "tables")
        await stage.watcher.start(NoKafka())
        stage.watcher.close()

    asyncio.run(run())
    (said,) = [record.getMessage() for record in caplog.records if "no journal" in record.getMessage()]
    assert f"{tmp_path / 'tables'} " in said
    assert "tables.root" in said


def test_tables_with_a_journal_are_not_remarked_upon(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage) -> None:
        assert "no journal" not in caplog.text

    play(scenario)


def test_tables_of_another_journal_in_the_place_of_the_old_ones_end_the_agent(tmp_path: Path) -> None:
    async def run() -> None:
        stage = Stage(tmp_path / "tables")
        stage.commit(Kind.CONTROLLER_STARTED, data={"journal_id": "ours"})
        await stage.watcher.start(NoKafka())
        shutil.rmtree(tmp_path / "tables")
        other = Stage(tmp_path / "tables")
        other.commit(Kind.CONTROLLER_STARTED, data={"journal_id": "other"})
        forged = Entry(1, Kind.MODE, "one", 9, 0, data={"mode": "live"})
        stage.watcher._contradict(forged, "a test")  # whatever makes it read the tables as a whole
        running = asyncio.create_task(stage.watcher.run())
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not stage.failures and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert "the tables now hold journal other, this agent follows ours" in str(stage.failures[0])
        assert stage.watcher.state.journal_id == "ours"

    asyncio.run(run())


def test_a_successor_is_read_from_the_table_although_the_log_between_was_cleaned_up(play: Play) -> None:
    """An agent that has lived on the feed knows of no version since its start; the successor's first entry comes from
    the table alone."""

    async def scenario(stage: Stage) -> None:
        for _ in range(4):
            stage.tell(stage.commit(Kind.ALARM, reason="x"))
        await stage.follows()
        stage.clean_up_log()
        stage.tell(stage.commit(Kind.CONTROLLER_STARTED, "two"), instance="two")
        await asyncio.wait_for(stage.follows(), 3)

    play(scenario)
