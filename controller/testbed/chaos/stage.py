"""Everything that runs, by name, and what can be done to it.

A local cluster in which each agent has a way to Kafka of its own, each process a wall clock of its own where a C
compiler is there, and the tables a file system of their own where mounting is allowed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from controller.domain.errors import BallastError
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.process.children import Child
from controller.process.failpoints import VARIABLE
from controller.testbed import units
from controller.testbed.chaos.supervisor import Supervisor
from controller.testbed.chaos.volume import Volume
from controller.testbed.clock_shim import ClockShim
from controller.testbed.demo.workload import TOPICS, bundle_of
from controller.testbed.fault_proxy import CuttableProxy, free_port
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.kafka_settings import Door
from controller.testbed.local_cluster import LocalCluster

JOB, STORE, KAFKA = "job", "store", "kafka"
OVERRIDES = ("rounds.mode=live", "agent.report_interval_ms=5000", "logging.json_lines=true")
ANSWER_S = 10.0
START_S = 240.0  # of a job, beside whatever else a storm strikes


class Stage:
    """A context manager; `up` starts everything."""

    def __init__(self, folder: Path, agents: int, tell: Callable[[str], None]) -> None:
        self.folder = folder.resolve()
        self.agents = tuple(f"broker-{number}" for number in range(1, agents + 1))
        self.volume = Volume(self.folder / "tables")
        self.clocks = {name: ClockShim(self.folder / "clocks" / name) for name in (*self.agents, JOB, KAFKA, STORE)}
        self.job_failpoints = ""  # of its next start
        doors = {name: free_port() for name in self.agents}
        self.ways = {name: CuttableProxy(door) for name, door in doors.items()}
        self._lookup_ports = {name: free_port() for name in self.agents}
        self.kafka = EmbeddedKafka(
            self.folder / "kafka",
            doors=[Door(door, self.ways[name].port) for name, door in doors.items()],
            env=self.clocks[KAFKA].env,
        )
        self.cluster = LocalCluster(
            self.folder, overrides=OVERRIDES, kafka=self.kafka, tell=tell, store_env=self.clocks[STORE].env
        )
        starts = {name: lambda name=name: self._start_agent(name) for name in self.agents}
        self.supervisor = Supervisor(
            {**starts, JOB: self._start_job, STORE: self._start_store},
            self.cluster.children,
            final={**dict.fromkeys(self.agents, units.final_codes(units.AGENT)), JOB: units.final_codes(units.JOB)},
        )
        self._open = ExitStack()

    def __enter__(self) -> Stage:
        for way in self.ways.values():
            self._open.enter_context(way)
        self._open.callback(self.volume.unmount)
        self._open.enter_context(self.cluster)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def up(self) -> None:
        """Start everything; returns once all brokers are registered."""
        self.volume.mount()
        self.cluster.start_kafka_and_store()
        self._start_job()
        for name in self.agents:
            self._start_agent(name)
        self.cluster.wait_for_job()
        self.cluster.wait_until(lambda state: not self.missing(state), 180.0, f"{len(self.agents)} brokers")
        self._open.enter_context(self.supervisor)

    # ------------------------------------------------------------ what the nemesis does

    def kill(self, name: str) -> None:
        """SIGKILL; it stays down until `release`."""
        if name == KAFKA:
            self.kafka.kill()
        else:
            self.supervisor.kill(name)

    def release(self, name: str) -> None:
        """Let it be started again; Kafka, which nobody supervises, is started here."""
        if name == KAFKA:
            self.kafka.start()
        else:
            self.supervisor.release(name)

    def restart_job(self, failpoints: str = "") -> None:
        """Kill the job; it is started again, with these failpoints."""
        self.job_failpoints = failpoints
        self.kill(JOB)
        self.release(JOB)

    def replace_controller(self, failpoints: str) -> None:
        """As `restart_job`; returns once the next controller holds the journal, and has answered a command or had the
        time to: otherwise it may have nothing to commit. Raises ProcessFailed."""
        before = self.cluster.state.instance
        self.restart_job(failpoints)
        self.cluster.wait_until(lambda state: state.instance != before, START_S, "the next controller")
        self._answers()

    def signal(self, name: str, number: signal.Signals) -> None:
        """To the process, and to all that it has started."""
        pid = self.kafka.pid if name == KAFKA else self.cluster.children[name].pid
        if pid is not None:
            os.killpg(pid, number)

    # ------------------------------------------------------------ what can be seen

    def missing(self, state: ClusterState) -> set[str]:
        """The brokers that are not registered."""
        return set(self.agents) - {broker.id for broker in state.live_brokers()}

    def is_whole(self) -> bool:
        """Whether every broker is there, every bundle of the clients is served, and the controller answers."""
        state = self.cluster.state
        return not self.missing(state) and is_served(state) and self._answers()

    def _answers(self) -> bool:
        try:
            return self.cluster.command("mode", timeout_s=ANSWER_S, mode="live").accepted
        except BallastError:
            return False

    # ------------------------------------------------------------ starts

    def _start_agent(self, name: str) -> Child:
        return self.cluster.start_agent(
            name,
            env=self.clocks[name].env,
            kafka__bootstrap_servers=f"127.0.0.1:{self.ways[name].port}",
            http__agent_port=str(self._lookup_ports[name]),
        )

    def _start_job(self) -> Child:
        failpoints, self.job_failpoints = self.job_failpoints, ""
        return self.cluster.start_job(env={**self.clocks[JOB].env, VARIABLE: failpoints})

    def _start_store(self) -> Child:
        return self.cluster.start_store(int(self.cluster.settings.store.address.rpartition(":")[2]))


def served_bundles(state: ClusterState) -> dict[str, str]:
    """Bundle -> broker of all bundles that clients use, as far as an owner that lives serves them."""
    bundles = {str(bundle_of(state, topic)) for topic in TOPICS}
    records = [state.bundles[name] for name in bundles if name in state.bundles]
    return {
        str(record.bundle): record.by.broker
        for record in records
        if record.by is not None and record.state is State.OWNED and state.alive(record.by)
    }


def is_served(state: ClusterState) -> bool:
    """Whether all of them are."""
    return len(served_bundles(state)) == len({bundle_of(state, topic) for topic in TOPICS})
