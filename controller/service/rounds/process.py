"""The worker process: follows the journal, computes a round when one is due, and sends it back.

One thread, no Spark, low priority. It ends when its pipe is closed, whatever happened to the controller, and ignores
signals to the process group.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from deltalake.exceptions import DeltaError

from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.decision import EARLY, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError, describe_error
from controller.domain.state import ClusterState
from controller.ledger.follower import Follower
from controller.ledger.loads import LoadsProgressWatch
from controller.ledger.store.away import is_store_away
from controller.policy.round import learn_and_decide
from controller.policy.usage.judged import Judged
from controller.policy.usage.shift import Shift
from controller.process.logs import configure_logs
from controller.process.plugins import use_installed_strategies
from controller.service.rounds.gains import Gains
from controller.service.rounds.inputs import InputReader, schedule_of
from controller.service.rounds.restraint import Restraint
from controller.service.rounds.schedule import Progress
from controller.service.rounds.shifts import ShiftWatch
from controller.service.rounds.usage import LearnedUsage

log = logging.getLogger(__name__)

POLL_S = 0.25
ALIVE_EVERY_S = 2.0
NICENESS = 10  # a round may take seconds of CPU; the control query's batches come first


@dataclass(frozen=True, slots=True)
class StillAlive:
    """Sent periodically by the worker, to show that it is neither dead nor hung."""


@dataclass(frozen=True, slots=True)
class RoundsDone:
    """Sent by the worker: the round's result, those of its challengers, and the time they took."""

    results: tuple[RoundResult, ...]
    duration_ms: int


@dataclass(frozen=True, slots=True)
class MovesJudged:
    """Sent by the worker when it is known what moves of earlier rounds have brought."""

    judged: tuple[Judged, ...]


def run_worker(pipe: Connection, settings: Settings, every_round: bool) -> None:
    """The process's main function."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    configure_logs(settings.logging.level, settings.logging.json_lines, cluster=settings.cluster.name, process="rounds")
    use_installed_strategies()
    try:
        _compute_rounds(pipe, settings, every_round)
    except (OSError, DeltaError) as error:
        if not is_store_away(error):
            raise
        log.error("no rounds while the table store is away: %s", describe_error(error))
        sys.exit(1)


def _compute_rounds(pipe: Connection, settings: Settings, every_round: bool) -> None:
    """Compute rounds until the other end of the pipe is closed."""
    rounds = Rounds(settings, every_round)
    said_s = 0.0
    try:
        while True:
            if pipe.poll(POLL_S):
                rounds.lagging = pipe.recv()  # raises EOFError when the other end was closed
            done = rounds.advance()
            if done is not None:
                pipe.send(done)
            judged = rounds.judge_moves()
            if judged:
                pipe.send(MovesJudged(judged))
            if time.monotonic() - said_s > ALIVE_EVERY_S:
                pipe.send(StillAlive())
                said_s = time.monotonic()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        rounds.finish()


class Rounds:
    """The rounds of one worker. Call `advance` periodically. `lagging`: brokers that are behind the journal."""

    def __init__(self, settings: Settings, every_round: bool) -> None:
        self.lagging: frozenset[str] = frozenset()
        tables = table_root(settings)
        self._schedule = schedule_of(settings, every_round)
        self._inputs = InputReader(settings, tables, self._schedule)
        self._loads = LoadsProgressWatch(tables.again())
        self._follower = Follower(tables.again())
        self._follower.bootstrap()
        self._usage = LearnedUsage(tables.again(), self._follower.state.round_at_ms)
        self._shifts = ShiftWatch(settings, tables.again())
        self.gains = Gains(1_000 * (settings.loads.short_horizon_s + settings.loads.pane_s))
        self._restraint = Restraint(settings.rounds.least_realised)
        self._awaited: tuple[int, str] | None = None  # at_ms and id of the round that was sent but is not journaled yet

    def advance(self) -> RoundsDone | None:
        """Read new entries; compute the round that is due, if any, provided that the last one was journaled.

        A round requested by command is in the state, so a worker that starts after a crash computes it as well.
        """
        for entry in self._follower.catch_up():
            self._read(entry)
        if self._waits():
            return None
        progress, state = self._progress(), self._follower.state
        newest = self._schedule.now(progress)
        if newest is not None:
            self._shifts.watch(newest)
        at_ms = newest if state.round_wanted else None
        if at_ms is not None and at_ms >= state.round_at_ms:  # otherwise wait for load reports
            return self._round(at_ms, f"{at_ms}-{state.round_wanted_seq}", self._find_shift(at_ms, state))
        due = self._schedule.next_due(state.round_at_ms, progress)
        if due is not None:
            return self._round(due, str(due), self._find_shift(due, state))
        early = self._schedule.early(state.round_at_ms, progress)
        shift = self._find_shift(early, state) if early is not None else None
        return self._round(early, f"{early}{EARLY}", shift, early=True) if early is not None and shift else None

    def _find_shift(self, at_ms: int, state: ClusterState) -> Shift | None:
        watched = self._schedule.watches and self._inputs.may_be_early(state)
        return self._shifts.find_shift(at_ms, state, self._usage.model) if watched else None

    def judge_moves(self) -> tuple[Judged, ...]:
        """What moves of earlier rounds have brought, as soon as it is known; each once."""
        judged = self.gains.judge()
        if judged and self._restraint.note(judged):
            self._usage.begin_again()
        return judged

    def finish(self) -> None:
        """Store what the last round learned if it was journaled just before the controller ended."""
        try:
            for entry in self._follower.catch_up():
                self._read(entry)
        except (DeltaError, OSError, BallastError) as error:
            log.warning("the journal's last entries could not be read: %s", describe_error(error))

    def _read(self, entry: Entry) -> None:
        """Store what our round learned once it is journaled; stop waiting for it then, or once a later one is, which
        makes it void (`controller.control.rounds`)."""
        self.gains.note_entry(entry)
        if entry.kind is not Kind.ROUND or entry.data.get("challenger") or self._awaited is None:
            return
        at_ms, round_id = int(entry.data["at_ms"]), str(entry.data.get("round_id", ""))
        if round_id == self._awaited[1] or at_ms > self._awaited[0]:
            self._awaited = None
            self._usage.store(str(entry.data.get("usage_hash", "")))

    def _waits(self) -> bool:
        """Whether the round that was sent is still to be journaled. A follower that jumps to a base snapshot does not
        read the round's entry: its state tells of the round, or of a later one."""
        if self._awaited is not None:
            (at_ms, round_id), state = self._awaited, self._follower.state
            if state.round_id == round_id or state.round_at_ms > at_ms:
                self._awaited = None
        return self._awaited is not None

    def _progress(self) -> Progress | None:
        progress = self._loads.poll()
        return Progress(progress.first_event_ms, progress.newest_event_ms) if progress else None

    def _round(self, at_ms: int, round_id: str, shift: Shift | None = None, early: bool = False) -> RoundsDone:
        began, state = time.monotonic(), self._follower.state.copy()
        by_traffic, because = shift is not None, shift.to_json() if shift is not None else None
        if shift is not None:
            log.info("round %s: load has shifted to %s: %s", round_id, shift.broker, because)
        inputs = self._inputs.read(
            round_id, at_ms, state, self._usage.model, self._shifts, self.lagging, early=early, by_traffic=by_traffic
        )
        results, model = learn_and_decide(inputs)
        usage_hash = self._usage.hash if early else self._usage.learn(model, at_ms)
        self._awaited = at_ms, round_id
        self.gains.note_computed(results[0])
        self._shifts.note_computed(inputs, self._usage.model, results[0], shift)
        results = tuple(replace(result, usage_hash=usage_hash, because=because) for result in results)
        results = (replace(results[0], missed=self._restraint.take_untold()), *results[1:])
        return RoundsDone(results, round((time.monotonic() - began) * 1000))
