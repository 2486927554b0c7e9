"""The world around a controller that is killed again and again: agents, Kafka, Spark's batches, the round worker.

Agents are those of the simulation (`controller.sim`), with the real hand-over and lease cores on simulated time; the
controller is a process of its own with the real loop on real tables (`crash_child`). Invariant I1 is checked after
every simulated event. Kafka is a list of records a topic; a start reads on from the journaled offsets, or, where an
older checkpoint is played, from below them. The control tables are cleaned up beside some of the batches.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.published.clusters import ClusterBuilder
from controller.agent import records as wire
from controller.config.policy_values import control_settings
from controller.config.sections.control import Control, Rounds
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.apply import fold
from controller.domain.decision import RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.events import AssignRequest, BrokerEvent, Command, Event, Heartbeat
from controller.domain.ownership import State
from controller.domain.settings.policy import PolicySettings, ShedSettings
from controller.domain.state import ClusterState
from controller.ledger import cleanup
from controller.ledger.cleanup import ControlCleanup, Kept
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import broker_rows, ownership_rows
from controller.policy.round import RoundInputs, run_round
from controller.process.clock import wall_ms
from controller.service.records import Row
from controller.sim.ownership.cluster import SimCluster
from controller.sim.ownership.invariants import check_fold, check_settled, check_state
from controller.testbed.checker.journal import check_decided_once
from tests.component.crash_child import NAMES, Done, Failed, MicroBatch, Start, Started, run_controller

ANSWER_S = 180.0  # only a hang takes so long
ROUND_EVERY_MS = 10_000
ROUNDS_FROM_MS = 1_800_000_000_000
KILLED = "killed"
MONTH_MS = 30 * 86_400_000

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.component.crash_child"])


class KafkaLog:
    """Records by topic, one partition each. Takes events as the simulation's `pending` list does."""

    def __init__(self) -> None:
        self.topics: dict[str, list[bytes]] = {topic: [] for topic in NAMES.control}
        self.garbled: set[tuple[str, int]] = set()  # (topic, offset)

    def append(self, event: Event) -> None:
        topic, record = _encoded(event)
        self.topics[topic].append(json.dumps(record).encode())

    def garble(self, topic: str) -> None:
        """Something that is no record."""
        self.garbled.add((topic, len(self.topics[topic])))
        self.topics[topic].append(b'{"v":1,"half a')

    def ends(self) -> dict[str, int]:
        return {topic: len(records) for topic, records in self.topics.items()}

    def rows(self, start: dict[str, int], end: dict[str, int]) -> list[Row]:
        return [
            Row(topic, 0, offset, 5, self.topics[topic][offset])
            for topic in self.topics
            for offset in range(start[topic], end[topic])
        ]


def _encoded(event: Event) -> tuple[str, dict[str, Any]]:
    if isinstance(event, Heartbeat):
        return NAMES.heartbeats, wire.heartbeat(event.session, event.applied_seq, 0, event.info)
    if isinstance(event, BrokerEvent):
        bundle = None if event.bundle is None else str(event.bundle)
        fields = {"bundle": bundle, "epoch": event.epoch, "boundary": event.boundary, "reason": event.reason}
        more = {"serving": dict(event.serving), "data": dict(event.data)}
        return NAMES.broker_events, wire.event(event.session, event.kind, event.applied_seq, 0, **fields, **more)
    if isinstance(event, AssignRequest):
        return NAMES.assign_requests, wire.assign_request(event.broker, event.bundle, 0)
    assert isinstance(event, Command)
    return NAMES.commands, {"v": 1, "id": event.id, "kind": event.kind, "args": dict(event.args), "who": "t"}


class Controller:
    """The controller's process, seen from outside."""

    def __init__(self, start: Start) -> None:
        self.instance = start.instance
        self._pipe, theirs = _context.Pipe()
        self.process: BaseProcess = _context.Process(target=run_controller, args=(theirs, start), daemon=True)
        self.process.start()
        theirs.close()

    def started(self) -> Started | Failed | None:
        """Its first word; None when it was killed before."""
        return self._answer()  # type: ignore[return-value]

    def ask(self, batch: MicroBatch | None) -> None:
        """Hand a batch over; None asks for a clean stop."""
        try:
            self._pipe.send(batch)
        except (BrokenPipeError, ConnectionResetError):
            return

    def run(self, batch: MicroBatch) -> Done | Failed | None:
        """One batch; None when it was killed in it."""
        self.ask(batch)
        return self.answer()

    def answer(self) -> Done | Failed | None:
        """What came of the batch that it was asked for."""
        return self._answer()  # type: ignore[return-value]

    def stop(self) -> None:
        """A clean stop."""
        self.ask(None)
        self.process.join(ANSWER_S)
        assert self.process.exitcode == 0

    def end(self) -> None:
        """SIGKILL, whatever it does."""
        self.process.kill()
        self.process.join()
        self._pipe.close()

    def _answer(self) -> object | None:
        try:
            assert self._pipe.poll(ANSWER_S), f"controller {self.instance} says nothing"
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(ANSWER_S)
            assert self.process.exitcode == -signal.SIGKILL
            return None


class CrashCluster(SimCluster):
    """`plans`: the failpoints of one controller after the other; when they are used up, the next one has none.

    `ends` collects how each of them ended: KILLED, or the name of the exception.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        plans: list[str],
        lookback: int = 0,
        tables: Tables | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`lookback`: a start reads that many records below the journaled offsets again, as an old checkpoint would.

        `tables`: elsewhere than in the folder, with the controllers' `environment` for their store's credentials.
        """
        self._environment = dict(environment or {})
        self.settings_of_job = Settings(
            tables=tables or Tables(root=str(folder / "tables")),
            rounds=Rounds(mode="live"),
            control=Control(snapshot_every_entries=25),  # starts fold from a snapshot and a tail
        )
        super().__init__(seed, control_settings(self.settings_of_job))
        self.state, self.journal = ClusterState(), []
        self.root = table_root(self.settings_of_job)
        self.root.create_all()
        self.log = KafkaLog()
        self.pending = self.log  # type: ignore[assignment]
        self.plans = list(plans)
        self._to_end = len(plans)
        self.lookback = lookback
        self.ends: list[str] = []
        self.sent: set[str] = set()
        self.merged = 0  # journal files that clean-ups merged
        self.results: dict[str, RoundResult] = {}  # plan hash -> what the worker sent
        self.controller: Controller | None = None
        self._starts = 0
        self._position: dict[str, int] = {}
        self._number = 0
        self._asked_round: str | None = None  # sent to the living controller
        self._cleanup = ControlCleanup(self.root.again(), Kept(MONTH_MS, MONTH_MS))
        self._follower = Follower(self.root)
        self._follower.bootstrap()

    # ------------------------------------------------------------ for scenarios

    def command(self, kind: str, **args: object) -> str:
        """An operator's command; some operators press the key twice."""
        self._serial += 1
        command_id = f"c{self._serial}"
        self.sent.add(command_id)
        for _ in range(self.random.choice([1, 1, 2])):
            self.log.append(Command(command_id, kind, args))
        return command_id

    def plan(self, failpoints: str) -> None:
        """The failpoints of the next controller to start."""
        self.plans.append(failpoints)
        self._to_end += 1

    def restart_controller(self) -> None:
        """SIGKILL between two batches."""
        if self.controller is not None:
            self._ended(KILLED)

    def settle(self) -> None:
        """No more faults: what was planned has happened, all is read, everything is served."""
        for _ in range(40):
            self.run(5_000)
            if self.state.frozen:
                self.command("thaw")
            if self.all_ended and self._consumed() and self._settled():
                break
        assert self.all_ended, f"not every planned end came: the scenario is too short; {self.ends}"
        check_settled(self.state)

    @property
    def all_ended(self) -> bool:
        """Whether every controller with a plan has ended."""
        return len(self.ends) >= self._to_end

    def close(self) -> None:
        """End the controller's process."""
        if self.controller is not None:
            self.controller.end()

    # ------------------------------------------------------------ inside

    def _batch(self) -> None:
        """One micro-batch, or a start when there is no controller. Everything appended before now is read."""
        if not self._living():
            self.after(self.random.randint(50, 8_000), self._batch)
            return
        assert self.controller is not None
        end = self.log.ends()
        end_ms = self.now_ms + self.random.randint(0, 300)
        rows = self.log.rows(self._position, end)
        with self._cleaning_up(now_and_then=self._number % 20 == 19):
            answer = self.controller.run(MicroBatch(self._number, rows, self._rounds_due(), self.now_ms, end_ms))
        self._position, self._number = end, self._number + 1
        if isinstance(answer, Failed):
            self._ended(answer.error)
        elif answer is None:
            self._ended(KILLED)
        self._hear()
        self.after(end_ms - self.now_ms + self.random.randint(50, 400), self._batch)

    @contextlib.contextmanager
    def _cleaning_up(self, now_and_then: bool) -> Iterator[None]:
        """A clean-up of the control tables beside the batch, with files merged from the eighth on."""
        if not now_and_then:
            yield
            return
        with mock.patch.object(cleanup, "FEWEST_FILES", 8), ThreadPoolExecutor(1) as beside:
            merged = beside.submit(self._cleanup.run, wall_ms())
            yield
            self.merged += sum(tended.merged_files for tended in merged.result() if tended.table == "journal")

    def _living(self) -> bool:
        """Whether a controller runs now; starts one if not."""
        if self.controller is not None:
            return True
        self._starts += 1
        plan = self.plans.pop(0) if self.plans else ""
        self.controller = Controller(
            Start(self.settings_of_job, f"i{self._starts}", plan, self.now_ms, self._environment)
        )
        first = self.controller.started()
        if isinstance(first, Started):
            journaled = {topic: first.offsets.get(topic, {}).get("0", 0) for topic in self.log.topics}
            self._position = {topic: max(0, offset - self.lookback) for topic, offset in journaled.items()}
            self._number, self._asked_round = 0, None
        else:
            self._ended(first.error if first is not None else KILLED)
        self._hear()
        return self.controller is not None

    def _ended(self, how: str) -> None:
        assert self.controller is not None
        self.controller.end()
        self.controller = None
        self.ends.append(how)

    def _hear(self) -> None:
        """What the tables say, to the agents, some time later."""
        entries = self._follower.catch_up()
        if entries:
            self._publish(entries)

    def _rounds_due(self) -> list[RoundResult]:
        """The worker's part: the next round when its time has come. A worker that starts again computes it again, from
        loads that have changed since."""
        at_ms = ROUNDS_FROM_MS + self.now_ms // ROUND_EVERY_MS * ROUND_EVERY_MS
        round_id = str(at_ms)
        if at_ms <= self.state.round_at_ms or round_id == self._asked_round or not self.state.namespaces:
            return []
        self._asked_round = round_id
        result = self._computed(round_id, at_ms)
        self.results[result.plan_hash] = result
        return [result]

    def _computed(self, round_id: str, at_ms: int) -> RoundResult:
        shed = ShedSettings(consecutive_rounds=1, max_moves_per_round=3)
        built = ClusterBuilder(PolicySettings(shed=shed), self.state.copy(), at_ms)
        for broker in self.state.live_brokers():
            incarnation = broker.session.incarnation
            built.broker(broker.id, self.random.uniform(5, 95), incarnation=incarnation, registered=False)
        for name, record in sorted(self.state.bundles.items()):
            if record.state is State.OWNED and record.by is not None and record.by.broker in built.brokers:
                cpu = self.random.uniform(1, 15)
                built.bundle(record.by.broker, cpu, name=name, journaled=False)
        brokers, bundles = built.columns()
        return run_round(
            RoundInputs(round_id, at_ms, built.state, brokers, bundles, built.settings, "conf", "code", frozenset())
        )

    def _consumed(self) -> bool:
        """Whether the journal has an answer to every command."""
        return self.sent <= set(self.state.commands)

    def _settled(self) -> bool:
        return all(r.state in (State.OWNED, State.RETIRED) or not r.ever_owned for r in self.state.bundles.values())


# ---------------------------------------------------------------- what must hold in the end


def check_all(cluster: CrashCluster) -> list[Entry]:
    """I2, I3, I4 of the journal; commands and decisions once; evidence of exactly the journal's rounds; projections."""
    entries = Journal(cluster.root).read_since(0)
    state = ClusterState()
    for _, commit in groupby(entries, key=lambda e: (e.instance, e.batch)):
        after = fold(state, list(commit))
        check_state(state, after)
        state = after
    check_fold(ClusterState(), entries, cluster.state)
    check_decided_once(entries)
    check_commands(entries, cluster.sent)
    check_evidence(cluster, entries)
    check_quarantine(cluster)
    return entries


def check_commands(entries: list[Entry], sent: set[str]) -> None:
    """One answer each, and what an accepted one does is in the very commit that accepts it, once."""
    answered = Counter(e.command_id for e in entries if e.kind in (Kind.COMMAND_ACCEPTED, Kind.COMMAND_REJECTED))
    assert answered == Counter(sent), "every command has exactly one answer"
    commit_of = {e.command_id: (e.instance, e.batch) for e in entries if e.kind is Kind.COMMAND_ACCEPTED}
    begun: Counter[tuple[str, str | None]] = Counter()
    for entry in entries:
        if entry.kind is Kind.OWNERSHIP and entry.reason == "commanded" and entry.command_id is not None:
            assert commit_of[entry.command_id] == (entry.instance, entry.batch)
            begun[entry.command_id, entry.bundle] += 1
    assert [cause for cause, times in begun.items() if times > 1] == []
    created = Counter(e.data["namespace"] for e in entries if e.kind is Kind.NAMESPACE_CREATED)
    assert set(created.values()) <= {1}


def check_evidence(cluster: CrashCluster, entries: list[Entry]) -> None:
    """Joined evidence is what the journaled rounds saw and did, whatever other attempts left behind."""
    rounds = {e.attempt_id: e for e in entries if e.kind is Kind.ROUND}
    ids = [e.data["round_id"] for e in rounds.values()]
    assert len(ids) == len(set(ids)), "a round is journaled once"
    joined = read_joined(cluster.root, "rounds").to_pylist()
    assert {row["attempt_id"]: row["plan_hash"] for row in joined} == {
        attempt: entry.data["plan_hash"] for attempt, entry in rounds.items()
    }
    assert len(joined) == len(rounds)
    decisions = read_joined(cluster.root, "decisions").to_pylist()
    scores = read_joined(cluster.root, "broker_scores").to_pylist()
    for attempt, entry in rounds.items():
        result = cluster.results[entry.data["plan_hash"]]
        assert sorted(d["decision_id"] for d in decisions if d["attempt_id"] == attempt) == sorted(
            d.id for d in result.decisions
        )
        assert len([s for s in scores if s["attempt_id"] == attempt]) == len(result.scores)
    executed = {d["decision_id"] for d in decisions if d["executed"]}
    assert executed == {e.decision_id for e in entries if e.decision_id}


def check_quarantine(cluster: CrashCluster) -> None:
    """Every bad record is there, at least once: a batch that is run again may write it again, under the same key."""
    rows = cluster.root.open("quarantine").to_pyarrow_dataset().to_table(columns=["topic", "kafka_offset"]).to_pylist()
    assert {(row["topic"], row["kafka_offset"]) for row in rows} == cluster.log.garbled


def check_projections(cluster: CrashCluster) -> None:
    """After a clean stop `ownership` and `brokers` are the fold of the journal."""
    state = cluster.state
    found = {name: cluster.root.open(name).to_pyarrow_table().drop_columns("seq") for name in ("ownership", "brokers")}
    assert found["ownership"].sort_by("bundle").to_pylist() == ownership_rows(state)
    assert found["brokers"].sort_by("broker").to_pylist() == broker_rows(state)


def stop_and_check(cluster: CrashCluster) -> list[Entry]:
    """A clean stop, then everything that must hold."""
    assert cluster.controller is not None
    cluster.controller.stop()
    cluster.controller = None
    cluster._hear()
    entries = check_all(cluster)
    check_projections(cluster)
    return entries


def orphaned_evidence(cluster: CrashCluster) -> Iterator[str]:
    """Attempts that left rows which no journal entry names."""
    named = {e.attempt_id for e in cluster.journal}
    for name in ("broker_scores", "decisions", "rounds"):
        attempts = cluster.root.open(name).to_pyarrow_dataset().to_table(columns=["attempt_id"])["attempt_id"]
        yield from set(attempts.to_pylist()) - named
