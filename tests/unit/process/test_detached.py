"""Processes that outlive the command that started them, with `sleep` in their place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from controller.process.detached import ENDED, PAUSED, RUNNING, STOPPED, DetachedProcess

SLEEP = ("sleep", "600")


def process_in(folder: Path) -> DetachedProcess:
    return DetachedProcess("server", folder / "pids" / "server.pid", folder / "logs" / "server.log")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[DetachedProcess]:
    process = process_in(tmp_path)
    yield process
    process.kill()


def wait_for(process: DetachedProcess, state: str) -> None:
    deadline = time.monotonic() + 20
    while process.state != state:
        assert time.monotonic() < deadline, f"{process.state} instead of {state}"
        time.sleep(0.01)


def test_another_process_finds_and_stops_it(process: DetachedProcess, tmp_path: Path) -> None:
    process.start(SLEEP, tmp_path)
    found = process_in(tmp_path)
    assert (found.pid, found.state) == (process.pid, RUNNING)
    assert found.memory_bytes()
    assert found.stop(20)
    assert (process.pid, process.state, found.state) == (None, STOPPED, STOPPED)
    assert not found.stop(20)


def test_a_reused_pid_is_never_signalled(process: DetachedProcess, tmp_path: Path) -> None:
    process.start(SLEEP, tmp_path)
    stranger = process_in(tmp_path / "other")
    stranger.pid_file.parent.mkdir(parents=True)
    pid, ticks = process.pid_file.read_text().split()
    stranger.pid_file.write_text(f"{pid} {int(ticks) - 1}\n")
    assert (stranger.pid, stranger.state) == (None, ENDED)
    assert not stranger.kill()
    assert process.state == RUNNING


@pytest.mark.parametrize("text", ["", "x", "1", "-5 7", "99999999999 1", "0 0"])
def test_a_damaged_pid_file_is_no_process(process: DetachedProcess, text: str) -> None:
    process.pid_file.parent.mkdir(parents=True)
    process.pid_file.write_text(text)
    assert process.pid is None
    assert not process.kill()


def test_a_process_that_ends_by_itself_is_told_from_one_that_was_stopped(
    process: DetachedProcess, tmp_path: Path
) -> None:
    process.start(["sh", "-c", "echo last words; exit 3"], tmp_path)
    wait_for(process, ENDED)
    assert process.last_words() == "last words"
    process.start(SLEEP, tmp_path)
    assert process.state == RUNNING


def test_a_paused_process_goes_on_and_can_be_stopped(process: DetachedProcess, tmp_path: Path) -> None:
    process.start(SLEEP, tmp_path)
    assert process.signal(SIGSTOP)
    wait_for(process, PAUSED)
    assert process.signal(SIGCONT)
    wait_for(process, RUNNING)
    process.signal(SIGSTOP)
    wait_for(process, PAUSED)
    assert process.stop(20)
    assert process.state == STOPPED


def test_one_that_ignores_sigterm_is_killed(process: DetachedProcess, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process.start(["sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done"], tmp_path)
    while not ready.exists():
        time.sleep(0.01)
    assert process.stop(0.3)
    assert process.state == STOPPED


def test_it_outlives_its_parent(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from controller.process.detached import DetachedProcess;"
        f" p = Path({str(tmp_path)!r});"
        " DetachedProcess('server', p / 'pids' / 'server.pid', p / 'logs' / 'server.log').start(['sleep', '600'], p)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    process = process_in(tmp_path)
    try:
        assert process.state == RUNNING
        assert process.pid is not None
        assert os.getsid(process.pid) == process.pid, "a session of its own: Ctrl-C does not reach it"
    finally:
        assert process.kill()
    assert not process.signal(SIGKILL)


def test_last_words_without_a_log(tmp_path: Path) -> None:
    assert process_in(tmp_path).last_words() == "it has no log"
