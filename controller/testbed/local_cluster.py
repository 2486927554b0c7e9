"""Runs a whole cluster on this machine: Kafka, store, Spark job and agents as processes, in one folder.

The demo, the end-to-end tests and the benchmarks use it. Everything listens on loopback, on its own ports, so several
clusters can run side by side. `stop` ends what was started, in order, by pid.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil
import yaml

from controller.bus.rights import Role
from controller.bus.topics import ensure_topics, live_topics, replay_topics
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry
from controller.domain.errors import ConfigError
from controller.domain.state import ClusterState
from controller.operations.operator import Operator, Outcome
from controller.process.children import Child, ProcessFailed
from controller.process.interrupts import check_interrupt, delay_interrupts
from controller.process.paths import python_path
from controller.testbed.kafka import EmbeddedKafka, free_ports
from controller.testbed.kafka_cluster.cluster import KafkaCluster
from controller.testbed.written_settings import with_overrides

BALLAST = (sys.executable, "-m", "controller.cli.main")
# The job shares this machine with the brokers, which serve clients and have priority.
JOB_NICENESS = ("nice", "-n", "5")
CONFIG_FILE = "ballast.yaml"
MARKS = (CONFIG_FILE, "kafka", "logs")  # the folder of a cluster has all of these
STORE = (sys.executable, "-m", "controller.brokers.reference.store.server")


def check_unused(folder: Path, of_cluster: str = "") -> None:
    """Raise ConfigError for a folder with anything in it; name what a cluster that was killed left running there.

    `of_cluster`: the part of the folder that is the cluster's.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: give one that is new or empty")
    if not folder.exists() or not any(folder.iterdir()):
        return
    place, left = folder.resolve(), []
    # what works in somebody's own folder is not to be ended, nor is this command, which names the folder, too
    if all((place / of_cluster / name).exists() for name in MARKS):
        ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        left = [str(pid) for pid in processes_of(place) if pid not in ours]
    run = f"; processes of a cluster still run in it: to end them, `kill {' '.join(left)}`" if left else ""
    raise ConfigError(f"{folder} is not empty: give a folder that is new or empty{run}")


def _address_of(page: Child) -> str:
    """The address that a page has printed. Raises ProcessFailed when it does not in time."""
    return page.wait_for_line("http://", 60).strip()


def processes_of(folder: Path) -> list[int]:
    """The pids of processes with a path below the folder on their command line."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(f"{folder}/" in word for word in process.info["cmdline"] or ()):
            found.append(process.pid)
    return sorted(found)


class LocalCluster:
    """A cluster of processes: `store`, `job`, and one per broker. It follows the journal without asking any of them."""

    def __init__(
        self,
        folder: Path,
        profile: str = "demo",
        overrides: Sequence[str] = (),
        replay: bool = False,
        kafka: EmbeddedKafka | KafkaCluster | None = None,
        tell: Callable[[str], None] = lambda doing: None,
        store_env: Mapping[str, str] | None = None,
    ) -> None:
        """`kafka`: one with doors, a special environment, or several nodes; the cluster starts and stops it as well.
        `store_env` is added to the environment of the segment store.

        `tell` is called with what is being started or waited for. In a Kafka with logins, every process connects as its
        role, and this one as an operator; the rights on the topics must be there (`KafkaCluster.prepare`).
        """
        self.folder = folder.resolve()
        self.profile = profile
        self.overrides = tuple(overrides)
        self.tell = tell
        self.replay = replay  # load reports keep the times of the recording, and no round is skipped
        self.config_file = self.folder / CONFIG_FILE
        self.kafka = kafka or EmbeddedKafka(self.folder / "kafka")
        self.store_env = store_env
        self.children: dict[str, Child] = {}
        self.agents: set[str] = set()
        self.operator: Operator | None = None
        self._settings: Settings | None = None
        self._page: Mapping[str, Mapping[str, object]] = {}  # where it is served, if it is

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def settings(self) -> Settings:
        """The settings of every process of the cluster."""
        if self._settings is None:
            raise ProcessFailed("the cluster is not up; call start_kafka_and_store first")
        return self._settings

    @property
    def state(self) -> ClusterState:
        """The state according to the journal, read now."""
        operator = self._operator()
        operator.poll()
        return operator.follower.state

    @property
    def entries(self) -> list[Entry]:
        """Every journal entry since the cluster was started."""
        return self._operator().seen

    # ------------------------------------------------------------ up

    def up(
        self, brokers: Sequence[str], job_only: str | None = None, on_page: Callable[[str], None] | None = None,
        sections: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:  # fmt: skip
        """Start everything in the fastest order: the job's JVM starts at the same time as the rest.

        `on_page` gets the address of the operators' page, which is served only if somebody wants it. It is there
        before anything else: whoever opens it sees the cluster come up. `sections`: see `configure`.
        """
        if on_page is not None:
            on_page(self.serve_page())
        self.start_kafka_and_store(sections)
        self.start_job(only=job_only)
        for broker in brokers:
            self.start_agent(broker)
        self.wait_for_job()
        self.wait_until(
            lambda state: {b.id for b in state.live_brokers()} >= set(brokers),
            180,
            f"the registration of {len(brokers)} brokers",
        )

    def start_kafka_and_store(self, sections: Mapping[str, Mapping[str, object]] | None = None) -> None:
        """Start Kafka and the segment store; create topics, tables and the configuration file of all processes."""
        self.start_kafka()
        self.start_segment_store(sections)

    def start_segment_store(self, sections: Mapping[str, Mapping[str, object]] | None = None) -> None:
        """Start the segment store and configure the cluster; Kafka runs. `sections`: see `configure`."""
        self.tell("the segment store starts")
        store = self.start_store()
        address = store.wait_for_line("ballast-store listening", 60).split()[-1]
        self.configure({"store": {"address": address}, **(sections or {})})

    def start_store(self, port: int = 0) -> Child:
        """Start the process of the segment store. `port`: where it listened before; 0 takes a free one."""
        argv = [*STORE, "--data-dir", str(self.folder / "store"), "--port", str(port)]
        return self.start("store", argv, env=self.store_env)

    def start_kafka(self) -> None:
        """Start Kafka alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tell("Kafka starts (a JVM)")
        self.kafka.start()

    def configure(self, sections: Mapping[str, Mapping[str, object]]) -> None:
        """Write the configuration file of all processes, with these sections too; create topics and tables."""
        self._write_configuration(sections)
        self._settings = self._settings_as(Role.OPERATOR)
        self.tell("topics and tables are created")
        topics, kafka = replay_topics if self.replay else live_topics, self._settings_as(Role.CONTROLLER).kafka
        ensure_topics(kafka.bootstrap_servers, topics(kafka.topics), kafka.client, kafka.replication_factor or -1)
        table_root(self._settings).create_all()

    def start_job(
        self, only: str | None = None, take_over: bool = False, name: str = "job", more: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Child:  # fmt: skip
        """Start the Spark application. `only`: `loads` or `control`; `more`: further options; `env` is added.

        It works in the cluster's folder, because Spark 4.0.0 creates a folder `artifacts` where it works (SPARK-52396).
        """
        argv = [*JOB_NICENESS, *BALLAST, "run", "--conf", str(self.config_file), *self._sets()]
        argv += ["--only", only] if only else []
        argv += ["--take-over"] if take_over else []
        argv += ["--every-round"] if self.replay else []
        ours = {"PYTHONPATH": python_path(os.environ), **self._login(Role.CONTROLLER)}
        return self.start(name, [*argv, *more], env={**ours, **(env or {})}, folder=self.folder)

    def serve_page(self) -> str:
        """Start the operators' page on a free port, if need be before all else that it reads; its address.

        The port is in the configuration file, where `ballast status` looks for it.
        """
        self._page = {"ui": {"port": free_ports(1)[0]}}
        if self.config_file.exists():
            self._write({**yaml.safe_load(self.config_file.read_text()), **self._page})
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            if isinstance(self.kafka, EmbeddedKafka):
                self.kafka.settle_port()
            self._write_configuration({})
        argv = [*BALLAST, "ui", "--conf", str(self.config_file), *self._sets()]
        return _address_of(self.start("page", argv, env=self._login(Role.OPERATOR)))

    def wait_for_job(self, timeout_s: float = 240.0) -> None:
        """Wait until the controller has committed its start to the journal."""
        what = "the Spark job's start (a JVM, its session, the journal)"
        self.wait_until(lambda state: state.controller_running, timeout_s, what, needs="job")

    def start_agent(
        self, broker: str, *more: str, name: str = "", env: Mapping[str, str] | None = None, **settings: str
    ) -> Child:
        """Start an agent with its reference broker, on free ports.

        `name`: name of the process, if two have the same broker id. `settings`: settings of this agent only, with a
        double underscore for the dot (`tables__root=…`). `env` is added to its environment.
        """
        for key, value in settings.items():
            more = (*more, "--set", f"{key.replace('__', '.')}={value}")
        argv = [*BALLAST, "agent", "--conf", str(self.config_file), "--broker-id", broker, *self._sets(), *more]
        with delay_interrupts():
            agent = self.start(name or broker, argv, env={**self._login(Role.AGENT), **(env or {})})
            self.agents.add(name or broker)
        return agent

    def start(
        self, name: str, argv: Sequence[str], stdin: bool = False, env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Child:  # fmt: skip
        """Start a process of the cluster that logs to `logs/NAME.log`, appending after a restart. `folder`: where it
        works, by default where this process does."""
        old = self.children.get(name)
        if old is not None and old.alive:
            raise ProcessFailed(f"{name} runs already with pid {old.pid}")
        safe = name.replace(":", "_").replace("/", "_")
        check_interrupt()
        with delay_interrupts():
            log = self.folder / "logs" / f"{safe}.log"
            child = self.children[name] = Child(name, argv, log, env=env, stdin=stdin, folder=folder)
        return child

    # ------------------------------------------------------------ use

    def command(self, kind: str, timeout_s: float = 60.0, **args: object) -> Outcome:
        """Send an operator's command and return the journal's answer."""
        self.tell(f"waiting for the controller's answer to {kind}")
        return self._operator().run(kind, args, timeout_s=timeout_s)

    def wait_until(
        self, holds: Callable[[ClusterState], bool], timeout_s: float, what: str, needs: str | None = None
    ) -> ClusterState:
        """Poll the journal until the condition holds. Raises ProcessFailed, which names what was waited for."""
        deadline = time.monotonic() + timeout_s
        self.tell(f"waiting for {what}")
        while True:
            check_interrupt()
            state = self.state
            if holds(state):
                self.tell("")
                return state
            child = self.children.get(needs) if needs else None
            if child is not None and not child.alive:
                raise ProcessFailed(f"{needs} ended with {child.process.returncode}: {child.last_words()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{what} did not happen within {timeout_s:g} s (journal seq {state.seq})")
            time.sleep(0.1)

    def lookup_urls(self) -> list[str]:
        """The lookup addresses of living agents, in order of broker ids."""
        return [str(b.info["lookup_url"]) for b in self.state.live_brokers() if b.info.get("lookup_url")]

    def client_options(self) -> list[str]:
        """The options with which a client program finds the cluster's agents, and shows what they demand."""
        lookups = [word for url in self.lookup_urls() for word in ("--lookup", url)]
        return ["--conf", str(self.config_file), *self._sets(), *lookups]

    # ------------------------------------------------------------ down

    def stop(self) -> None:
        """Stop clients, agents, job, store and Kafka, so that no process waits for one that is gone.

        Agents are killed: a graceful leave would wait for brokers that are stopping, too.
        """
        self.tell("clients, agents, Spark job, store and Kafka are stopped")
        last = ("job", "store")
        clients = [name for name in self.children if name not in last and name not in self.agents]
        for name in clients:
            self.children[name].terminate()
        for name in clients:
            self.children[name].wait(15)
        for name in self.agents:
            self.children[name].kill()
        for name in last:
            if name in self.children:
                self.children[name].stop(30)
        if self.operator is not None:
            with contextlib.suppress(Exception):
                self.operator.close()
        self.kafka.stop()

    # ------------------------------------------------------------ inside

    def _write_configuration(self, sections: Mapping[str, Mapping[str, object]]) -> None:
        document = {
            "profile": self.profile,
            "kafka": {"bootstrap_servers": self.kafka.bootstrap},
            "tables": {"root": "tables", "checkpoints": "checkpoints"},  # beside the file: the folder may be moved
            **self._page,
            **sections,
        }
        self._write(document)

    def _write(self, document: Mapping[str, object]) -> None:
        """Write the file with the overrides in it, so that whoever reads it later has the settings of the job."""
        document = with_overrides(document, self.overrides)
        self.config_file.write_text(yaml.safe_dump(dict(document), sort_keys=False))

    def _login(self, role: Role) -> Mapping[str, str]:
        return self.kafka.environment(role.value) if isinstance(self.kafka, KafkaCluster) else {}

    def _settings_as(self, role: Role) -> Settings:
        return load_settings(self.config_file, overrides=self.overrides, env={**os.environ, **self._login(role)})

    def _sets(self) -> list[str]:
        return [word for override in self.overrides for word in ("--set", override)]

    def _operator(self) -> Operator:
        if self.operator is None:
            self.operator = Operator(self.settings, who=f"local@{socket.gethostname()}")
        return self.operator
