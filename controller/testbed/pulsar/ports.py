"""Whether the ports of servers are free, asked before any of them starts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

from controller.process.interrupts import check_interrupt
from controller.testbed.pulsar.spec import ClusterSpec, PulsarFailed

PATIENCE_S = 3.0  # a killed JVM keeps its ports for a moment after it is gone


def check_free(spec: ClusterSpec, names: Iterable[str], patience_s: float = PATIENCE_S) -> None:
    """Raise PulsarFailed, naming every port of these servers that something listens on for that long."""
    wanted = [(spec.host(name), port, name) for name in names for port in spec.ports(name) if port is not None]
    deadline = time.monotonic() + patience_s
    while busy := [f"{port} ({name})" for host, port, name in wanted if not _is_free(host, port)]:
        if time.monotonic() > deadline:
            raise PulsarFailed(
                f"ports of 127.0.0.1 in use by another program: {', '.join(busy)}."
                " End it, or give the cluster another --base-port"
            )
        check_interrupt()
        time.sleep(0.1)


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, port)) == 0


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Pulsar's servers do
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError:
            return False
        return True
