"""Ctrl-C or SIGTERM in the middle of a process's start: the process is known, so that it can be stopped."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from controller.process.detached import DetachedProcess
from controller.process.interrupts import delay_interrupts
from controller.testbed.local_cluster import LocalCluster

SLEEP = ("sleep", "60")


@pytest.fixture
def terminated_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM arrives once the process runs and before anybody knows its pid."""
    start = subprocess.Popen

    def started(*args: Any, **more: Any) -> Any:
        process = start(*args, **more)
        signal.raise_signal(signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", started)


def interrupted(start: Any) -> None:
    """Call it as a command does, for which SIGTERM is an interrupt."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_cluster_stops_what_was_being_started(tmp_path: Path, terminated_at_start: None) -> None:
    cluster = LocalCluster(tmp_path)
    cluster.config_file.write_text("")
    interrupted(lambda: cluster.start("client", SLEEP))
    interrupted(lambda: cluster.start_agent("broker-1"))
    children = list(cluster.children.values())
    assert [child.name for child in children] == ["client", "broker-1"]
    cluster.stop()
    assert not any(child.alive for child in children)


def test_a_detached_process_has_its_pid_file(tmp_path: Path, terminated_at_start: None) -> None:
    process = DetachedProcess("sleep", tmp_path / "pid", tmp_path / "log")
    interrupted(lambda: process.start(SLEEP, tmp_path))
    assert process.kill(), "it was found by its pid file"


def test_signals_arrive_at_the_end_of_the_outermost_block_once() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with delay_interrupts():
            with delay_interrupts():
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)
            assert seen == []
        assert seen == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(seen) == 2, "the handler is back"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored_and_other_threads_pass() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with delay_interrupts():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    passed: list[bool] = []

    def elsewhere() -> None:
        with delay_interrupts():
            passed.append(True)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert passed
