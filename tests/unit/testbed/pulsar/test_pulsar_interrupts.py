"""Where commands wait for a local Pulsar cluster, a signal that was noted takes effect."""

from __future__ import annotations

import fcntl
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from controller.process.interrupts import note_interrupts
from controller.process.setup_archive import ensure_unpacked
from controller.process.setup_lock import read_lock
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.distribution import ARCHIVE, LOCK_FILE
from controller.testbed.pulsar.ports import check_free
from controller.testbed.pulsar.spec import make_spec
from controller.testbed.pulsar.traffic import placing
from controller.testbed.pulsar.traffic.owners import Served
from controller.testbed.pulsar.traffic.traffic import Traffic


@contextmanager
def interrupted() -> Iterator[None]:
    """A command that notes signals gets one; its wait, which would fail later, must end with it."""
    with suppress(KeyboardInterrupt), note_interrupts():
        signal.raise_signal(signal.SIGTERM)
        yield
        pytest.fail("it went on")


@pytest.fixture
def cluster(tmp_path: Path) -> PulsarCluster:
    return PulsarCluster(tmp_path / "cluster", make_spec(pulsar="4.0.8", brokers=(1,)))


def test_the_wait_for_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, interrupted():
        port = server.getsockname()[1]
        check_free(make_spec(pulsar="4.0.8", base_port=port), ["zookeeper"], patience_s=1.0)


def test_the_start_of_a_server_which_is_stopped_again(cluster: PulsarCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    running = iter([[], ["zookeeper"]])
    monkeypatch.setattr(cluster.servers, "running", lambda: next(running))
    monkeypatch.setattr(cluster.servers, "check_alive", lambda name: None)
    monkeypatch.setattr(cluster.servers, "serves", lambda name, admin: False)
    monkeypatch.setattr(cluster, "_stop", lambda names, timeout_s: stopped.extend(names))
    with interrupted(), cluster._undone_on_failure():
        cluster._serve(["zookeeper"], None, timeout_s=1.0)
    assert stopped == ["zookeeper"]


def test_a_signal_after_the_last_wait_undoes_the_start_as_well(
    cluster: PulsarCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    running = iter([[], ["zookeeper"]])
    monkeypatch.setattr(cluster.servers, "running", lambda: next(running))
    monkeypatch.setattr(cluster, "_stop", lambda names, timeout_s: stopped.extend(names))
    with interrupted(), cluster._undone_on_failure():
        pass
    assert stopped == ["zookeeper"]


def test_the_wait_for_owners(cluster: PulsarCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "locate_topics", lambda *_: {"a": Served("t/n/0x00000000_0xffffffff", None)})
    with interrupted():
        placing.wait_for_owners(cluster, "t/n", ["a"], timeout_s=0.5)


def test_the_wait_for_traffic(cluster: PulsarCluster, tmp_path: Path) -> None:
    traffic = Traffic(cluster, tmp_path / "logs", ["persistent://t/n/a"])
    traffic.rates = {"persistent://t/n/a": 1.0}
    with interrupted():
        traffic.wait_until_flowing(timeout_s=0.5)


def test_the_wait_for_another_process_that_downloads(tmp_path: Path) -> None:
    said: list[str] = []
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with interrupted():
            ensure_unpacked(read_lock(LOCK_FILE).archive(ARCHIVE), tmp_path, said.append)
    assert said == [f"waiting for another process that fills {tmp_path}"]
