"""Ctrl-C or SIGTERM: in the middle of a process's start, which is known then, and wherever a command does not wait."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.process.detached import DetachedProcess
from controller.process.interrupts import (
    check_interrupt,
    delay_interrupts,
    no_interrupt_for_children,
    note_interrupts,
    run_interruptibly,
)
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


def test_ctrl_c_spares_a_child_from_its_first_instruction() -> None:
    with no_interrupt_for_children():
        child = subprocess.Popen(SLEEP)
    try:
        child.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
    finally:
        child.kill()
        child.wait()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def noting(run: Any) -> None:
    """Call it as `ballast demo` does, which notes signals; it must be interrupted."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), note_interrupts():
        run()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    check_interrupt()  # nothing is left of it


def test_a_noted_signal_takes_effect_where_the_command_waits() -> None:
    """Between two of these places it disturbs nobody, such as a library that would swallow the exception."""
    done: list[str] = []

    def run() -> None:
        signal.raise_signal(signal.SIGTERM)
        done.append("went on")
        with delay_interrupts():
            done.append("started a process")
        check_interrupt()
        done.append("went on for too long")

    noting(run)
    assert done == ["went on", "started a process"]


def test_a_signal_that_nobody_looked_for_takes_effect_at_the_end() -> None:
    noting(lambda: signal.raise_signal(signal.SIGINT))


def test_after_a_second_signal_clean_up_is_not_interrupted_by_the_same_ones() -> None:
    with note_interrupts():
        with pytest.raises(KeyboardInterrupt):
            run_both()
        check_interrupt()
        signal.raise_signal(signal.SIGTERM)  # a third one is noted like the first
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()


def run_both() -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_waits_for_nothing() -> None:
    def run() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it waited")

    noting(run)


def test_one_more_signal_leaves_none_of_the_processes_that_are_being_stopped() -> None:
    stopped: list[str] = []

    def run() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            check_interrupt()
        finally:
            signal.raise_signal(signal.SIGTERM)
            stopped.append("all")

    noting(run)
    assert stopped == ["all"]


@pytest.mark.parametrize("ends", ["sleep 60", "exit 1"], ids=["while it runs", "as it ends with us"])
def test_a_program_that_is_waited_for_is_interrupted(ends: str) -> None:
    """Ctrl-C reaches the program as well: that it failed is not the news then."""
    before = set(psutil.Process().children())
    noting(lambda: run_interruptibly(["sh", "-c", f"kill -TERM {os.getpid()}; {ends}"], 30))
    assert set(psutil.Process().children()) == before


def test_a_program_that_is_waited_for_tells_its_end_or_is_late() -> None:
    done = run_interruptibly(["sh", "-c", "echo said; exit 3"], 30, stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (3, "said\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run_interruptibly(["sleep", "60"], 0.3)


def test_a_cluster_that_waits_is_interrupted_and_starts_nothing_more(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)

    def start_late() -> None:
        signal.raise_signal(signal.SIGTERM)
        cluster.start("client", SLEEP)

    noting(start_late)
    assert cluster.children == {}
    client = cluster.start("client", ("sh", "-c", f"sleep 1; kill -TERM {os.getpid()}; sleep 60"))
    try:
        noting(lambda: client.wait_for_line("never said", 30))
    finally:
        client.kill()
