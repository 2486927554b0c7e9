"""The job as operators run it: `ballast run`, a process of its own that takes SIGTERM."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from controller.bus.topics import TopicNames
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.testbed.kafka import EmbeddedKafka
from tests.e2e.waiting import wait_until
from tests.spark.control_bench import Agents, Journal
from tests.spark.job_process import Job

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def folder(tmp_path: Path, kafka: EmbeddedKafka, topics: TopicNames) -> Path:
    document = {
        "kafka": {"bootstrap_servers": kafka.bootstrap, "topic_prefix": topics.prefix},
        "tables": {"root": str(tmp_path / "tables"), "checkpoints": str(tmp_path / "checkpoints")},
    }
    (tmp_path / "ballast.yaml").write_text(yaml.safe_dump(document))
    return tmp_path


@pytest.fixture
def settings(folder: Path) -> Settings:
    return load_settings(folder / "ballast.yaml", env={})


@pytest.fixture
def jobs(folder: Path) -> Iterator[list[Job]]:
    started: list[Job] = []
    yield started
    for job in started:
        job.end()


@pytest.mark.thorough
def test_stop_restart_crash_and_a_second_one(folder: Path, settings: Settings, jobs: list[Job]) -> None:
    names = TopicNames(settings.kafka.topic_prefix)
    agents, journal = Agents(settings.kafka.bootstrap_servers, names), Journal(settings)

    # first run: both queries; SIGTERM to the process that was started (the JVM)
    first = Job(folder)
    jobs.append(first)
    agents.command("c1", "create_namespace", namespace="t/one", bundles=2)
    journal.wait(lambda s: "t/one" in s.namespaces, f"first namespace; see {first.log}", 180)
    url = re.search(r"http://127\.0\.0\.1:\d+", first.said())
    assert url is not None
    # the other query may still be starting
    wait_until(lambda: httpx.get(f"{url[0]}/healthz").json() == {"ok": True, "troubles": []}, 120, 0.5)
    assert "ballast_journal_seq" in httpx.get(f"{url[0]}/metrics").text
    second = Job(folder, "--only", "control")
    jobs.append(second)
    assert second.wait() == 3
    assert f"controller {journal.of_kind('controller_started')[0].instance} is alive" in second.said()
    first.process.terminate()
    assert first.wait() == 0, first.said()[-2000:]
    assert journal.state.controller_running is False
    assert not first.pid_file.exists()

    # second run: SIGKILL, in the middle of its life
    third = Job(folder, "--only", "control")
    jobs.append(third)
    agents.command("c2", "create_namespace", namespace="t/two", bundles=2)
    journal.wait(lambda s: "t/two" in s.namespaces, f"second namespace; see {third.log}", 180)
    family = psutil.Process(third.process.pid).children(recursive=True)
    for process in [*family, psutil.Process(third.process.pid)]:
        process.kill()
    third.process.wait()
    assert journal.state.controller_running is True

    # third run: goes on after a lease's silence; SIGTERM to the Python process
    fourth = Job(folder, "--only", "control")
    jobs.append(fourth)
    agents.command("c3", "create_namespace", namespace="t/three", bundles=2)
    journal.wait(lambda s: "t/three" in s.namespaces, f"third namespace; see {fourth.log}", 180)
    os.kill(int(fourth.pid_file.read_text()), signal.SIGTERM)
    assert fourth.wait() == 0, fourth.said()[-2000:]
    assert [e.command_id for e in journal.of_kind("command_accepted")] == ["c1", "c2", "c3"]
    assert journal.entries[-1].kind.value == "controller_stopped"
    agents.close()


def test_a_bad_configuration_is_one_line_and_code_2(folder: Path, jobs: list[Job]) -> None:
    job = Job(folder, "--set", "control.leese_ms=1")
    jobs.append(job)
    assert job.wait() == 2
    lines = [line for line in job.said().splitlines() if line.startswith("ballast run:")]
    assert len(lines) == 1
    assert "control.leese_ms" in lines[0]
    assert "Traceback" not in job.said()
