"""A place where real jobs are started and killed: topics, tables, two obedient brokers, an operator, loads by hand.

Brokers are words on Kafka (`tests/spark/control_bench`), so that nothing here needs a second JVM beside the job's.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import yaml

from controller.bus.topics import TopicNames
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.entries import Entry, Kind
from controller.domain.ownership import Ownership, State
from controller.domain.state import ClusterState
from controller.ledger.evidence import read_joined
from controller.ledger.projections import broker_rows, ownership_rows
from controller.ledger.tables import TableRoot
from controller.policy.round import replay_round
from controller.testbed.checker.journal import check_decided_once, check_states
from tests.component.crash_stage import check_commands
from tests.e2e.waiting import wait_until
from tests.spark.control_bench import Agents, Heartbeats, Journal
from tests.spark.job_process import Job
from tests.spark.test_control_rounds import PANE_MS, T0, Loads

START_S = 180.0  # only a hang takes so long
BROKERS = ("b1:80", "b2:80")


class Site:
    """A context manager; ends every job and thread it began."""

    def __init__(self, folder: Path, bootstrap: str, names: TopicNames) -> None:
        self.folder = folder
        document = {
            "kafka": {"bootstrap_servers": bootstrap, "topic_prefix": names.prefix},
            "tables": {"root": str(folder / "tables"), "checkpoints": str(folder / "checkpoints")},
            "control": {"lease_ms": 3_000},
            "rounds": {"mode": "live", "round_interval_s": 10},
        }
        (folder / "ballast.yaml").write_text(yaml.safe_dump(document))
        self.settings: Settings = load_settings(folder / "ballast.yaml", env={})
        self.names = names
        self.agents = Agents(bootstrap, names)
        self.journal = Journal(self.settings)
        self.jobs: list[Job] = []
        self.sent: set[str] = set()
        self._numbers = itertools.count(1)
        self._panes = 0
        self._random = random.Random(3)
        self._heartbeats = Heartbeats(self.agents, *BROKERS)
        self._stop = threading.Event()
        self._answering = threading.Thread(target=self._answer_on, name="obedient-brokers", daemon=True)

    def __enter__(self) -> Site:
        self._heartbeats.__enter__()
        self._answering.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._answering.join()
        self._heartbeats.__exit__()
        for job in self.jobs:
            job.end()
        self.agents.close()

    # ------------------------------------------------------------ what a test does

    def start(self, *arguments: str, failpoints: str = "") -> Job:
        """The job, control query alone. Returns at once."""
        self.jobs.append(Job(self.folder, "--only", "control", *arguments, failpoints=failpoints))
        return self.jobs[-1]

    def started(self, *arguments: str, failpoints: str = "") -> Job:
        """The job, once it holds the journal."""
        before = self.starts()
        job = self.start(*arguments, failpoints=failpoints)
        self.wait(lambda s: self.starts() > before, "the controller's start", job)
        return job

    def wait(self, holds: Callable[[ClusterState], bool], what: str, job: Job | None = None) -> ClusterState:
        """Until the journal says so; fails with the job's last words when the job ends instead."""

        def over() -> bool:
            if holds(self.journal.state):
                return True
            assert job is None or job.alive, (
                f"{what}: the job ended with {job.process.returncode}: {job.said()[-1500:]}"
            )
            return False

        wait_until(over, START_S, 0.1)
        return self.journal.state

    def starts(self) -> int:
        """How many controllers have claimed the journal."""
        return len(self.journal.of_kind("controller_started"))

    def command(self, kind: str, **args: object) -> str:
        """An operator's command, its id noted."""
        command_id = f"c{next(self._numbers)}"
        self.sent.add(command_id)
        self.agents.command(command_id, kind, **args)
        return command_id

    def serve(self, bundles: int) -> None:
        """A namespace whose bundles are all owned."""
        self.command("create_namespace", namespace="t/n", bundles=bundles)
        state = self.wait(lambda s: "t/n" in s.namespaces, "namespace", self.jobs[-1])
        for bundle in state.namespaces["t/n"]:
            self.agents.assign_request(BROKERS[0], str(bundle))
        self.wait(settled, "ownership", self.jobs[-1])

    def stir(self) -> None:
        """A command and a pane of load: a bundle moves by command, and the next round is due."""
        state = self.journal.state
        owned = [r for r in state.bundles.values() if r.state is State.OWNED]
        if owned:
            record = self._random.choice(sorted(owned, key=lambda r: r.bundle))
            self.command("unload_bundle", bundle=str(record.bundle), to=self._random.choice(BROKERS))
            self._load(owned)
        self.agents.flush()

    # ------------------------------------------------------------ what must hold

    def check(self) -> list[Entry]:
        """I2 to I4, every command answered and carried out once, evidence of exactly the journal's rounds."""
        newest = self.wait(lambda s: self.sent <= set(s.commands), "answers to all commands")
        entries = [e for e in self.journal.entries if e.seq <= newest.seq]
        check_states(entries)
        check_decided_once(entries)
        check_commands(entries, self.sent)
        self._check_evidence()
        return entries

    def check_projections(self) -> None:
        """`ownership` and `brokers` become what the journal says."""
        root = TableRoot(self.settings.tables.root)

        def equal() -> bool:
            state = self.journal.state
            found = {n: root.open(n).to_pyarrow_table().drop_columns("seq") for n in ("ownership", "brokers")}
            owned = found["ownership"].sort_by("bundle").to_pylist()
            return owned == ownership_rows(state) and found["brokers"].sort_by("broker").to_pylist() == broker_rows(
                state
            )

        wait_until(equal, START_S, 0.5)

    def _check_evidence(self) -> None:
        attempts = [e.attempt_id for e in self.journal.of_kind("round")]
        rounds = read_joined(self.settings.tables.root, "rounds").to_pylist()
        assert sorted(row["attempt_id"] for row in rounds) == sorted(a for a in attempts if a)
        for row in rounds:
            assert replay_round(json.loads(row["inputs_json"])) == row["plan_hash"]
        decisions = read_joined(self.settings.tables.root, "decisions").to_pylist()
        executed = {d["decision_id"] for d in decisions if d["executed"]}
        assert executed == {e.decision_id for e in self.journal.entries if e.decision_id}

    # ------------------------------------------------------------ inside

    def _load(self, owned: list[Ownership]) -> None:
        """One more pane, so that the next round is due, with other loads each time."""
        by_broker: dict[str, list[str]] = {broker: [] for broker in BROKERS}
        for record in owned:
            assert record.by is not None
            by_broker[record.by.broker].append(str(record.bundle))
        held = {broker: names for broker, names in by_broker.items() if names}
        loads = Loads(self.settings, held, {broker: self._random.uniform(5, 95) for broker in BROKERS})
        loads._batch = self._panes
        loads.panes(T0 + self._panes * PANE_MS)
        self._panes += 1

    def _answer_on(self) -> None:
        """The brokers: whatever waits for a word of theirs gets it, as often as it waits."""
        journal = Journal(self.settings)
        while not self._stop.wait(0.15):
            for record in journal.state.bundles.values():
                for broker, kind in _answers(record):
                    seq = journal.state.seq
                    self.agents.event(kind, broker, bundle=str(record.bundle), epoch=record.epoch, applied_seq=seq)


def _answers(record: Ownership) -> list[tuple[str, str]]:
    by, to = (p.broker if p is not None else "" for p in (record.by, record.to))
    if record.state is State.ASSIGNING:
        return [(to, "serving")]
    if record.state is State.TRANSFERRING:
        return [(to, "accepted")]
    if record.state is State.RELEASING:
        released = [] if record.released else [(by, "released")]
        return [*released, (to, "serving")] if to and record.released else released
    return []


def settled(state: ClusterState) -> bool:
    """Whether every bundle is owned."""
    return bool(state.bundles) and all(r.state is State.OWNED for r in state.bundles.values())


def starters(entries: list[Entry]) -> list[str]:
    """Instances in the order in which they claimed the journal."""
    return [e.instance for e in entries if e.kind is Kind.CONTROLLER_STARTED]
