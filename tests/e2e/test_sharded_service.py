"""docs/examples/counters as its guide runs it: processes of its own on a real Kafka, with a real controller.

The controller is the one without Spark, so there are no rounds: bundles move by lookup, drain and departure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from controller.bus.topics import TopicNames
from controller.config.load import load_settings
from controller.domain.state import ClusterState
from controller.process.paths import ROOT
from controller.testbed.kafka import EmbeddedKafka
from tests.e2e.plain_controller import PlainController, write_settings
from tests.e2e.programs import ballast
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
FILE = ROOT / "docs" / "examples" / "counters" / "ballast_counters.py"
NAMESPACE = "app/counters"
KEYS = [f"k{at}" for at in range(20)]
SOON_S = 180.0  # only a hang takes so long


@contextmanager
def service(name: str, conf: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The example as a process; its log is beside the configuration."""
    command = [sys.executable, str(FILE), name, str(conf), str(conf.parent / "counters.sqlite")]
    with (conf.parent / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(60)


def lookup_url(state: ClusterState, name: str) -> str:
    return str(state.brokers[name].info["lookup_url"])


def count(url: str, key: str) -> tuple[str, int]:
    """As a client does it: look up who serves the key, and ask there, until it is counted. Its owner and the value."""
    found: list[tuple[str, int]] = []

    def counted() -> bool:
        where = httpx.get(f"{url}/lookup", params={"topic": f"persistent://{NAMESPACE}/{key}"}, timeout=30)
        assert where.status_code in (200, 404, 503), where.text
        if where.status_code == 200:
            try:
                answer = httpx.post(f"http://{where.json()['address']}/count", params={"key": key}, timeout=30)
            except httpx.TransportError:  # its process has ended, or ends
                return False
            assert answer.status_code in (200, 421), answer.text
            if answer.status_code == 200:
                found.append((where.json()["broker"], answer.json()["value"]))
        return bool(found)

    wait_until(counted, SOON_S)
    return found[0]


def succeeds(*words: str) -> None:
    done = ballast(*words)
    assert done.returncode == 0, done.stderr + done.stdout


def test_no_count_is_lost_while_shards_change_hands(kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> None:
    conf = write_settings(tmp_path, kafka.bootstrap, topics, [])
    given = ("--conf", str(conf))
    running = PlainController(load_settings(conf, env={}))
    with running as controller, service("c1", conf), service("c2", conf) as second:
        wait_until(lambda: len(controller.state.live_brokers()) == 2, SOON_S)
        succeeds("namespace", "create", NAMESPACE, "--bundles", "4", *given)
        url = lookup_url(controller.state, "c1")

        first = [count(url, key) for key in KEYS]
        assert [value for _, value in first] == [1] * len(KEYS)
        assert {broker for broker, _ in first} == {"c1", "c2"}, "the shards are spread"

        succeeds("drain", "c1", "--wait", *given)
        assert [count(url, key) for key in KEYS] == [("c2", 2)] * len(KEYS), "c1 still answers lookups"

        succeeds("undrain", "c1", *given)
        second.terminate()
        assert second.wait(120) == 0, "it hands everything over, then leaves"
        assert [count(url, key) for key in KEYS] == [("c1", 3)] * len(KEYS)
