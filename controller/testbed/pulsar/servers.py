"""The servers of one cluster as processes: their files, how each is started, and whether it answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from controller.process.detached import PAUSED, RUNNING, DetachedProcess
from controller.process.interrupts import run_interruptibly
from controller.process.setup_java import utf8_locale
from controller.testbed.pulsar import jvm, server_files
from controller.testbed.pulsar.admin import LocalAdmin
from controller.testbed.pulsar.cgroups import CpuGroup
from controller.testbed.pulsar.credentials import Credentials
from controller.testbed.pulsar.ports import answers
from controller.testbed.pulsar.spec import BOOKIE, CLUSTER_NAME, ZOOKEEPER, ClusterSpec, PulsarFailed

INITIALISED = "metadata-initialised"  # in the data folder, once the cluster's metadata exist
INITIALISE_TIMEOUT_S = 240.0


class Servers:
    """Starts and finds the servers of the cluster in a folder; `home` is only needed to start some."""

    def __init__(self, folder: Path, spec: ClusterSpec) -> None:
        self.folder = folder
        self.spec = spec
        self.data = folder / "data"
        self.credentials = Credentials(folder / "credentials")
        self._processes: dict[str, DetachedProcess] = {}

    def process(self, name: str) -> DetachedProcess:
        """The process of a server. Raises ConfigError for a name that the cluster does not have."""
        self.spec.ports(name)
        if name not in self._processes:
            pid_file, log = self.folder / "pids" / f"{name}.pid", self.folder / "logs" / f"{name}.log"
            self._processes[name] = DetachedProcess(name, pid_file, log)
        return self._processes[name]

    def running(self) -> list[str]:
        """The servers whose process lives."""
        return [name for name in self.spec.server_names if self.process(name).pid is not None]

    def running_brokers(self) -> list[str]:
        """The brokers that can be asked: not stopped, and not paused. Raises PulsarFailed without one."""
        found = [name for name in self.spec.broker_names if self.process(name).state == RUNNING]
        if not found:
            raise PulsarFailed(f"no broker of the cluster in {self.folder} runs: start it with `ballast pulsar dev up`")
        return found

    def launch(self, name: str, home: Path) -> None:
        """Start the process of a server and return at once; `answers` tells when it serves."""
        if self.process(name).pid is not None:
            raise PulsarFailed(f"{name} runs already, with pid {self.process(name).pid}")
        program = self._program(name, home)
        flags = {ZOOKEEPER: jvm.ZOOKEEPER_JVM, BOOKIE: jvm.BOOKIE_JVM}.get(name, jvm.BROKER_JVM)
        argv = jvm.java_command(home, self._logging(), self._temporary(name), flags, *program)
        group = self.cpu_group(name)
        if group is not None:
            group.make()
            argv = group.enter(argv)
        self.process(name).start(argv, self.folder, utf8_locale())

    def cpu_group(self, name: str) -> CpuGroup | None:
        """The groups of a broker with a CPU quota; None for other servers."""
        limited = self.spec.broker_cores is not None and name in self.spec.broker_names
        return CpuGroup.of(self.folder, name) if limited else None

    def limit_cpu(self, name: str) -> None:
        """Put the CPU quota of a broker into force; it starts without, so that it starts at all soon."""
        group = self.cpu_group(name)
        if group is not None and self.spec.broker_cores is not None:
            group.limit(self.spec.broker_cores)

    def lift_cpu(self, name: str) -> None:
        """Take the CPU quota of a broker back until `limit_cpu`, as while it warms up."""
        group = self.cpu_group(name)
        if group is not None:
            group.lift()

    def serves(self, name: str, admin: LocalAdmin) -> bool:
        """Whether the server answers; a broker must say that it is ready, and be listed among the brokers."""
        if name not in self.spec.broker_names:
            return answers(self.spec.host(name), self.spec.ports(name).client)
        return admin.is_ready(name) and self.spec.broker_id(name) in admin.listed_brokers(name)

    def check_alive(self, name: str) -> None:
        """Raise PulsarFailed, with the end of its log, if a server that was started does not live."""
        process = self.process(name)
        if process.pid is None:
            raise PulsarFailed(f"{name} ended while starting; its log {process.log} ends with: {process.last_words()}")
        if process.state == PAUSED:
            raise PulsarFailed(f"{name} (pid {process.pid}) is paused: resume it first")

    def initialise_metadata(self, home: Path) -> None:
        """Write the cluster's metadata to ZooKeeper, unless that was completed before. Takes a JVM's start."""
        done = self.data / INITIALISED
        if done.exists():
            return
        store = server_files.metadata_store(self.spec)
        first = self.spec.broker_names[0]
        web, clients = self.spec.web_url(first), self.spec.client_url(first)
        program: tuple[str, ...] = (
            *("org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", CLUSTER_NAME),
            *("--metadata-store", store, "--configuration-metadata-store", store),
            *("--web-service-url", web, "--broker-service-url", clients),
        )
        if self.spec.tls:
            program = (*program, "--web-service-url-tls", web, "--broker-service-url-tls", clients)
        argv = jvm.java_command(home, self._logging(), self._temporary("metadata"), jvm.TOOL_JVM, *program)
        log = self.folder / "logs" / "metadata.log"
        with log.open("ab") as output:
            try:
                code = run_interruptibly(
                    argv,
                    INITIALISE_TIMEOUT_S,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    env={**os.environ, **utf8_locale()},
                ).returncode
            except subprocess.TimeoutExpired:
                code = -1
        if code != 0:
            words = DetachedProcess("metadata", self.folder / "pids" / "metadata.pid", log).last_words()
            raise PulsarFailed(f"the cluster's metadata were not written; {log} ends with: {words}")
        done.touch()

    def _program(self, name: str, home: Path) -> Sequence[str]:
        """Write the server's configuration file; the main class and its arguments."""
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        if name == ZOOKEEPER:
            (self.data / ZOOKEEPER).mkdir(parents=True, exist_ok=True)
            file = _write_private(
                conf / "zookeeper.conf", server_files.zookeeper_conf(self.spec, self.data / ZOOKEEPER)
            )
            return jvm.zookeeper_program(file)
        if name == BOOKIE:
            changes = server_files.bookie_changes(self.spec, self.data)
            shipped = (home / "conf" / "bookkeeper.conf").read_text()
            return jvm.bookie_program(_write_private(conf / "bookie.conf", server_files.overlay(shipped, changes)))
        changes = server_files.broker_changes(self.spec, name, self.credentials.folder)
        shipped = (home / "conf" / "broker.conf").read_text()
        return jvm.broker_program(_write_private(conf / f"{name}.conf", server_files.overlay(shipped, changes)))

    def _logging(self) -> Path:
        file = self.folder / "conf" / "log4j2.properties"
        file.write_text(server_files.LOG4J)
        return file

    def _temporary(self, name: str) -> Path:
        """An empty folder: native libraries that a killed JVM left behind do not pile up."""
        folder = self.folder / "tmp" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def _write_private(file: Path, text: str) -> Path:
    """Configuration files may hold secrets that the user gave with --set."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    file.chmod(0o600)
    return file
