"""Runs a Kafka cluster in one folder: start, stop, kill and restart nodes, from any process that knows the folder.

The folder keeps its ports, users and data, so that stopping and starting is the same cluster again. Every node is
broker and controller, and listens on loopback.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from controller.bus.acls import Grant, apply_acls, principal_of
from controller.bus.cluster import admin_client
from controller.bus.rights import Role, rights_of
from controller.bus.topics import TopicNames, TopicSpec, ensure_topics
from controller.domain.errors import ConfigError
from controller.process.detached import RUNNING, DetachedProcess
from controller.process.setup_java import utf8_locale
from controller.testbed.kafka import (
    SERVER_HEAP,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    STORAGE_TOOL,
    TOOL_JVM,
    KafkaNotStarted,
    is_port_open,
    kafka_command,
)
from controller.testbed.kafka_cluster.logins import ADMIN, Logins
from controller.testbed.kafka_cluster.node_settings import node_properties
from controller.testbed.kafka_cluster.spec import SPEC_FILE, ClusterSpec, make_spec, read_spec, write_spec
from controller.testbed.kafka_settings import log4j_properties
from controller.testbed.secret_files import write_secret

FORMAT_TIMEOUT_S = 120.0
ASK_MS = 5_000
LEASE_MS = 15_000  # outlasts Kafka's session timeout of 9 s, after which others lead the partitions of a lost node


class KafkaCluster:
    """The cluster of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def __enter__(self) -> KafkaCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ what it is

    @property
    def exists(self) -> bool:
        """Whether the folder holds a cluster."""
        return (self.folder / SPEC_FILE).exists()

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster is. Raises KafkaNotStarted for a folder that holds none."""
        found = read_spec(self.folder)
        if found is None:
            raise KafkaNotStarted(f"{self.folder} holds no Kafka cluster: `ballast kafka up --nodes 3` makes one")
        return found

    @property
    def bootstrap(self) -> str:
        """The addresses for clients, of every node."""
        return self.spec.bootstrap

    @property
    def logins(self) -> Logins | None:
        """Who may connect; None where everybody may."""
        return Logins(self.folder / "logins", self.spec.users) if self.spec.secure else None

    def client(self, user: str) -> dict[str, object]:
        """The settings of a client that connects as this user; empty where there are no users."""
        return self.logins.client(user) if self.logins else {}

    def environment(self, user: str) -> Mapping[str, str]:
        """The environment of a process that connects as this user; empty where there are no users."""
        return self.logins.environment(user) if self.logins else {}

    def create(self, nodes: int, secure: bool, users: Sequence[str] = (), port: int = 0) -> None:
        """Settle what the cluster of this folder is. Raises ConfigError if it holds another one."""
        known = read_spec(self.folder)
        if known is None:
            write_spec(self.folder, make_spec(nodes, secure, users, port))
            return
        same = (len(known.nodes), known.secure, known.users) == (nodes, secure, tuple(users))
        if not same or port not in (0, known.nodes[0].clients):
            raise ConfigError(
                f"{self.folder} holds another cluster, {known.text}: drop the options, or give another --dir"
            )

    # ------------------------------------------------------------ its nodes

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start every node that does not run, and wait until all are members. Raises KafkaNotStarted."""
        spec, logins = self.spec, self.logins
        if logins is not None:
            logins.make()
        for number in spec.numbers:
            self._prepare(number)
        started = [number for number in spec.numbers if self.start_node(number)]
        try:
            self.wait_until_complete(timeout_s)
        except BaseException:
            for number in started:
                self.kill_node(number)
            raise

    def start_node(self, number: int) -> bool:
        """Start a node, which becomes a member a moment later; False if it runs already."""
        node, place = self.process(number), self._place(number)
        if node.pid is not None:
            return False
        command = kafka_command(place, SERVER_HEAP, "kafka.Kafka", str(place / "server.properties"))
        node.start(command, place, utf8_locale())
        return True

    def kill_node(self, number: int) -> None:
        """SIGKILL to a node, like the loss of its machine; its data is kept."""
        self.process(number).kill()

    def wait_until_complete(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every node is a member. Raises KafkaNotStarted, with the end of its log if a node has ended."""
        spec, deadline = self.spec, time.monotonic() + timeout_s
        while True:
            members, why = self._ask_members()
            if members == len(spec.nodes):
                return
            for number in spec.numbers:
                if self.process(number).pid is None:
                    raise KafkaNotStarted(f"node-{number} ended: {self._last_words(number)}")
            if time.monotonic() > deadline:
                raise KafkaNotStarted(
                    f"{members} of {len(spec.nodes)} nodes are members after {timeout_s:g} s ({why}): see kafka.log of "
                    f"each below {self.folder}"
                )
            time.sleep(0.1)

    def stop(self) -> bool:
        """Stop every node; its data is kept. False if none ran."""
        nodes = [self.process(number) for number in self.spec.numbers]
        lived = [node.request_stop() for node in nodes]
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for node in nodes:  # without a quorum, the last ones would wait for an answer to their leave
            node.wait_or_kill(max(0.1, deadline - time.monotonic()))
        return any(lived)

    def process(self, number: int) -> DetachedProcess:
        """A node's process."""
        place = self._place(number)
        return DetachedProcess(f"node-{number}", place / "kafka.pid", place / "kafka.out")

    def states(self) -> dict[str, str]:
        """`node-1`, … -> `running`, `ended`, `stopped`."""
        nodes = [self.process(number) for number in self.spec.numbers]
        return {node.name: node.state for node in nodes}

    def members(self) -> int:
        """How many nodes the cluster counts as alive. Raises KafkaUnavailable."""
        with admin_client(self.bootstrap, self.client(ADMIN), ASK_MS) as admin:
            brokers: list[dict[str, Any]] = admin.describe_cluster()["brokers"]
        return sum(not broker.get("is_fenced") for broker in brokers)

    # ------------------------------------------------------------ topics and rights

    def prepare(self, names: TopicNames, topics: Sequence[TopicSpec]) -> None:
        """Create topics; in a secure cluster, also everybody's rights on them and the files with logins."""
        ensure_topics(self.bootstrap, topics, self.client(ADMIN))
        if self.logins is not None:
            grants = [Grant(principal_of(role.value), right) for role in Role for right in rights_of(role, names)]
            apply_acls(self.bootstrap, grants, self.client(ADMIN))
            sections: dict[str, dict[str, object]] = {"kafka": {"topic_prefix": names.prefix}}
            if len(self.spec.nodes) > 1:
                sections["control"] = {"lease_ms": LEASE_MS}
            self.logins.write_files(self.bootstrap, sections)

    def facts(self) -> dict[str, Any]:
        """For `ballast kafka status`."""
        spec, states = self.spec, self.states()
        facts = {
            "up": all(state == RUNNING for state in states.values()),
            "dir": str(self.folder),
            "bootstrap_servers": spec.bootstrap,
            "cluster_id": spec.cluster_id,
            "nodes": states,
        }
        return {**facts, "logins": str(self.logins.folder)} if self.logins else facts

    # ------------------------------------------------------------ inside

    def _place(self, number: int) -> Path:
        return self.folder / f"node-{number}"

    def _prepare(self, number: int) -> None:
        """Write a node's settings, and format its storage, once."""
        place = self._place(number)
        settings, data = place / "server.properties", place / "data"
        place.mkdir(parents=True, exist_ok=True)
        (place / "log4j.properties").write_text(log4j_properties(place / "kafka.log"))
        settings.write_text(node_properties(self.spec, number, data, self.logins))
        if (data / "meta.properties").exists():
            return
        arguments = ["format", "-t", self.spec.cluster_id, "-c", str(settings)]
        for user in self.logins.scram_arguments() if self.logins else ():
            arguments += ["-S", user]
        self._format(place, arguments)

    def _format(self, place: Path, arguments: Sequence[str]) -> None:
        """The tool reads its arguments from a file, because passwords are among them."""
        file = place / "format.arguments"
        write_secret(file, "".join(f"{argument}\n" for argument in arguments).encode())
        try:
            command = kafka_command(place, TOOL_JVM, STORAGE_TOOL, f"@{file}")
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=FORMAT_TIMEOUT_S,
                check=False,
                env={**os.environ, **utf8_locale()},
            )
        finally:
            file.unlink()
        if done.returncode != 0:
            raise KafkaNotStarted(f"cannot format {place / 'data'}: {(done.stdout + done.stderr).strip()[-800:]}")

    def _ask_members(self) -> tuple[int, str]:
        """How many nodes are members, and why that is not known."""
        if not all(is_port_open(ports.clients) for ports in self.spec.nodes):
            return 0, "not all ports are open"
        try:
            return self.members(), ""
        except Exception as error:  # the errors of the library are many while a server starts
            return 0, f"{type(error).__name__}: {error}"

    def _last_words(self, number: int) -> str:
        log = self._place(number) / "kafka.log"
        logged = log.read_text(errors="replace").strip()[-1500:] if log.exists() else ""
        return logged or self.process(number).last_words()
