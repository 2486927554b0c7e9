"""What a cluster is: nodes, ports, users. Settled when its folder is made, and kept there as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from controller.domain.errors import ConfigError
from controller.testbed.kafka import check_port, free_ports, new_cluster_id

SPEC_FILE = "kafka.json"
LOOPBACK = "127.0.0.1"
MOST_PORT = 65_535
SIZES = (1, 3, 5)  # a quorum of controllers needs an odd number; more would only compete for the cores
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Ports(NamedTuple):
    """Of one node: for clients, for the other brokers, for the quorum of controllers."""

    clients: int
    brokers: int
    quorum: int


@dataclass(frozen=True)
class ClusterSpec:
    """`nodes` are numbered from 1. `users`: logins beside those that every secure cluster has."""

    cluster_id: str
    secure: bool
    nodes: tuple[Ports, ...]
    users: tuple[str, ...] = ()

    @property
    def numbers(self) -> range:
        """The numbers of the nodes."""
        return range(1, len(self.nodes) + 1)

    @property
    def bootstrap(self) -> str:
        """The addresses for clients, of every node."""
        return ",".join(f"{LOOPBACK}:{ports.clients}" for ports in self.nodes)

    @property
    def copies(self) -> int:
        """Of each partition, unless a topic says otherwise."""
        return min(3, len(self.nodes))

    @property
    def text(self) -> str:
        """The cluster in words, for messages."""
        users = f", users {', '.join(self.users)}" if self.users else ""
        return f"{len(self.nodes)} nodes at {self.bootstrap}{' with logins' if self.secure else ''}{users}"

    @property
    def least_in_sync(self) -> int:
        """How many copies must have a record before it is acknowledged."""
        return min(2, len(self.nodes))


def make_spec(nodes: int, secure: bool, users: Sequence[str] = (), port: int = 0) -> ClusterSpec:
    """A new cluster on free ports; with `port` the nodes' clients use that one and those after it.

    Raises ConfigError, KafkaNotStarted for a port that is in use.
    """
    if nodes not in SIZES:
        raise ConfigError(f"--nodes {nodes}: give {', '.join(map(str, SIZES[:-1]))} or {SIZES[-1]}, an odd number")
    if users and not secure:
        raise ConfigError(f"--user {users[0]}: there are users only with --secure")
    for user in users:
        if not _USER.fullmatch(user):
            raise ConfigError(f"--user {user!r}: needed are 1 to 64 letters, digits, dots, underscores or hyphens")
    given = range(port, port + nodes) if port else ()
    if port + nodes > MOST_PORT + 1:
        raise ConfigError(
            f"--port {port}: {nodes} nodes need {nodes} ports from there on, and the last one is {MOST_PORT}"
        )
    for number in given:
        check_port(number, "give another --port")
    free = free_ports(3 * nodes)
    made = [Ports(*free[3 * n : 3 * n + 3]) for n in range(nodes)]
    made = [ports._replace(clients=number) for ports, number in zip(made, given, strict=True)] if port else made
    return ClusterSpec(new_cluster_id(), secure, tuple(made), tuple(users))


def read_spec(folder: Path) -> ClusterSpec | None:
    """The cluster of a folder; None where there is none."""
    try:
        document = json.loads((folder / SPEC_FILE).read_text())
    except FileNotFoundError:
        return None
    nodes = tuple(Ports(**ports) for ports in document["nodes"])
    return ClusterSpec(document["cluster_id"], document["secure"], nodes, tuple(document["users"]))


def write_spec(folder: Path, spec: ClusterSpec) -> None:
    """Settle what the cluster of the folder is."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "cluster_id": spec.cluster_id,
        "secure": spec.secure,
        "nodes": [ports._asdict() for ports in spec.nodes],
        "users": list(spec.users),
    }
    (folder / SPEC_FILE).write_text(json.dumps(document) + "\n")
