"""SIGTERM while Kafka hangs: the controller ends in good order, although its queries wait for Kafka."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from controller.domain.entries import Kind
from controller.testbed.local_cluster import LocalCluster

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]

# Kafka's clients wait for two minutes, the shutdown hooks for another half; only such a wait takes so long.
PATIENCE_S = 100.0
REPORTS_S = 6.0  # reports come every 5 s at the latest: both queries are in the middle of something


@pytest.mark.usefixtures("short_lived_jvms")
def test_a_controller_ends_on_sigterm_while_its_kafka_hangs(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, overrides=("rounds.mode=shadow",)) as cluster:
        cluster.up(("broker-1",))
        job, kafka = cluster.children["job"], cluster.kafka.pid
        assert kafka is not None
        os.kill(kafka, signal.SIGSTOP)
        try:
            time.sleep(REPORTS_S)
            began = time.monotonic()
            job.terminate()
            assert job.process.wait(PATIENCE_S) == 0, job.last_words()
            print(f"the controller ended {time.monotonic() - began:.1f} s after SIGTERM, without Kafka")
        finally:
            os.kill(kafka, signal.SIGCONT)
        assert not cluster.state.controller_running
        assert cluster.entries[-1].kind is Kind.CONTROLLER_STOPPED
