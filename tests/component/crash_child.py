"""The controller's half of the crash tests: a process with the real loop, tables, journal, evidence and projector.

Kafka, Spark, the round worker and time are played by the parent (`crash_stage`): each request is one micro-batch with
the clock's readings. It dies at the failpoints it was started with, or says what ended it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from prometheus_client import CollectorRegistry

from controller.bus.topics import TopicNames
from controller.config.policy_values import control_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.apply import fold
from controller.domain.decision import RoundResult
from controller.domain.entries import Entry
from controller.domain.events import RoundFinished
from controller.process import failpoints
from controller.service.feed import Feed
from controller.service.loop import Claim, Clocks, ControlLoop
from controller.service.metrics import ControlMetrics
from controller.service.records import Offsets, Row
from controller.service.start import claim, first_entries, last_entries
from controller.service.tables import ControlTables

NAMES = TopicNames("")
JOURNAL = "the-journal"
KAFKA = {"cluster_id": "k", "topic_ids": {}}


@dataclass(frozen=True)
class Start:
    """What a controller is started with. `failpoints`: as BALLAST_FAILPOINTS says it."""

    settings: Settings
    instance: str
    failpoints: str
    now_ms: int
    environment: Mapping[str, str] = field(default_factory=dict)  # credentials of the tables' store


@dataclass(frozen=True)
class Started:
    """It holds the journal; `offsets` are the journaled ones."""

    offsets: Offsets


@dataclass(frozen=True)
class MicroBatch:
    """One batch: its rows are read at `read_ms`, it ends at `end_ms`. `rounds` have come from the worker before."""

    number: int
    rows: Sequence[Row]
    rounds: Sequence[RoundResult]
    read_ms: int
    end_ms: int


@dataclass(frozen=True)
class Done:
    """The batch is over."""

    seq: int


@dataclass(frozen=True)
class Failed:
    """The process ends by itself."""

    error: str
    text: str


class SilentFeed(Feed):
    """Kafka's feed topic is the parent's business: agents here hear of entries from the table."""

    def __init__(self) -> None:
        self.told = 0

    def publish(self, entries: Sequence[Entry]) -> None:
        self.told += len(entries)

    def poke(self) -> None:
        pass


def run_controller(pipe: Connection, start: Start) -> None:
    """The process's main function: claim the journal, then batches until the pipe ends or a None asks for a stop."""
    logging.disable(logging.ERROR)  # failures are provoked here; what matters is said through the pipe
    os.environ.update(start.environment)
    failpoints.activate(start.failpoints)
    try:
        Controller(start, pipe).run()
    except EOFError:
        os._exit(0)
    except BaseException as error:
        pipe.send(Failed(type(error).__name__, str(error)))
        os._exit(1)
    os._exit(0)


class Controller:
    """One instance, as `ControlRunner` puts it together, without Spark and Kafka."""

    def __init__(self, start: Start, pipe: Connection) -> None:
        self.now_ms = start.now_ms
        self._pipe = pipe
        self._instance = start.instance
        metrics = ControlMetrics(CollectorRegistry())
        control = control_settings(start.settings)
        self._tables = ControlTables(
            table_root(start.settings), start.instance, start.settings, metrics, threading.Event()
        )
        state = self._tables.load_state()
        journal_id = state.journal_id or JOURNAL
        entries = first_entries(state, start.instance, self.now_ms, control, KAFKA, journal_id)
        state = claim(state, entries, self._tables.commit)
        clocks = Clocks(lambda: self.now_ms, lambda: self.now_ms)
        held = Claim(start.instance, state, KAFKA)
        self._loop = ControlLoop(held, self._tables, SilentFeed(), NAMES, control, clocks, metrics)
        self._tables.start_projecting(state)

    def run(self) -> None:
        """Answer requests."""
        self._pipe.send(Started(self._loop.state.offsets))
        while True:
            asked: MicroBatch | None = self._pipe.recv()
            if asked is None:
                self._stop()
                return
            self._batch(asked)
            self._pipe.send(Done(self._loop.state.seq))

    def _batch(self, asked: MicroBatch) -> None:
        for result in asked.rounds:
            self._loop.add_round(RoundFinished(result), 1)

        def collect() -> Sequence[Row]:
            self.now_ms = asked.read_ms
            return asked.rows

        self._loop.process(collect, asked.number)
        self.now_ms = self._loop._now_ms = self._loop.last_batch_ms = asked.end_ms

    def _stop(self) -> None:
        loop = self._loop
        entries = last_entries(loop.state, self._instance, loop.last_batch_id + 1, self.now_ms, loop.unjournaled, KAFKA)
        self._tables.commit(entries)
        self._tables.stop_projecting(fold(loop.state, entries))
