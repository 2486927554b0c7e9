"""`ballast pulsar dev` as users run it: interrupted, without a cluster, beside another one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from controller.process.detached import STOPPED
from controller.testbed.pulsar.cluster import PulsarCluster
from tests.pulsar.conftest import new_cluster
from tests.pulsar.waiting import wait_until

pytestmark = [pytest.mark.pulsar, pytest.mark.testbed]

DEV = (sys.executable, "-m", "controller.cli.main", "pulsar", "dev")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEV, *words], capture_output=True, text=True, timeout=300)


@pytest.fixture
def base_port(pulsar_archive: None, tmp_path: Path) -> int:
    """A free block of ports."""
    return new_cluster(tmp_path / "ports", brokers=(1,)).spec.base_port


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_an_interrupted_up_leaves_nothing_running(
    short_lived_jvms: None, base_port: int, tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "cluster"
    words = ["up", "--dir", str(folder), "--base-port", str(base_port), "-n", "1"]
    up = subprocess.Popen([*DEV, *words], stderr=subprocess.PIPE, text=True)
    pid_file = folder / "pids" / "bookie.pid"
    wait_until(pid_file.exists, bool, "the start of the bookie")
    pids = [int(file.read_text().split()[0]) for file in pid_file.parent.iterdir()]
    assert len(pids) == 2
    up.send_signal(how)
    _, said = up.communicate(timeout=60)
    assert up.returncode == 130, said
    assert "stopping bookie, zookeeper again" in said
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert {row["state"] for row in json.loads(run("status", "--dir", str(folder), "--json").stdout)["servers"]} == {
        STOPPED
    }
    wiped = run("down", "--dir", str(folder), "--wipe")
    assert (wiped.returncode, wiped.stdout.splitlines()[0]) == (0, "was not running")
    assert not folder.exists()


def test_a_second_command_on_a_starting_cluster_is_refused(
    short_lived_jvms: None, base_port: int, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    words = ["up", "--dir", str(folder), "--base-port", str(base_port), "-n", "1"]
    up = subprocess.Popen([*DEV, *words], stderr=subprocess.DEVNULL)
    try:
        wait_until((folder / "cluster.json").exists, bool, "the cluster's file")
        for command in ("up", "down"):
            refused = run(command, "--dir", str(folder))
            assert refused.returncode == 1
            assert "another process is starting or stopping the cluster" in refused.stderr
    finally:
        os.kill(up.pid, signal.SIGINT)
        up.wait(60)
    assert PulsarCluster.open(folder).servers.running() == []


def test_the_running_cluster_is_found_by_its_folder(cluster: PulsarCluster) -> None:
    shown = run("status", "--dir", str(cluster.folder), "--json")
    document = json.loads(shown.stdout)
    assert (shown.returncode, document["up"], document["manager"]) == (0, True, cluster.spec.manager)
    assert [row["server"] for row in document["servers"]] == cluster.spec.server_names
    again = run("up", "--dir", str(cluster.folder))
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, f"the cluster in {cluster.folder} runs already")


def test_where_nothing_is_the_answer_says_what_to_do(tmp_path: Path) -> None:
    shown = run("status", "--dir", str(tmp_path))
    assert (shown.returncode, shown.stderr.count("\n")) == (2, 1)
    assert "start one with `ballast pulsar dev up --dir" in shown.stderr
    assert run("down", "--dir", str(tmp_path)).stdout == "was not running\n"
