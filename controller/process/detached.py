"""Processes that outlive the command that started them: each has a pid file and a log, found again by the folder.

The pid file also holds when the process started, in clock ticks since boot, so a pid that another program has got in
the meantime is never taken for ours, whatever happens to the wall clock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from controller.process.interrupts import delay_interrupts

RUNNING, PAUSED, ENDED, STOPPED = "running", "paused", "ended", "stopped"


class DetachedProcess:
    """One process by its pid file. Any process that knows the file can look after it."""

    def __init__(self, name: str, pid_file: Path, log: Path) -> None:
        self.name = name
        self.pid_file = pid_file
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The pid while the process lives, paused or not."""
        process = self._process()
        return process.pid if process else None

    @property
    def state(self) -> str:
        """`running`, `paused` (by SIGSTOP), `ended` (nobody stopped it through this class) or `stopped`."""
        process = self._process()
        if process is None:
            return ENDED if self.pid_file.exists() else STOPPED
        with contextlib.suppress(psutil.NoSuchProcess):
            return PAUSED if process.status() == psutil.STATUS_STOPPED else RUNNING
        return ENDED

    def memory_bytes(self) -> int | None:
        """The resident memory of the process while it lives."""
        process = self._process()
        with contextlib.suppress(psutil.NoSuchProcess):
            return int(process.memory_info().rss) if process else None
        return None

    def start(self, argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        """Start the process in a session of its own; it appends to the log."""
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output, delay_interrupts():
            self._child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
            self.pid_file.write_text(f"{self._child.pid} {_start_ticks(self._child.pid)}\n")

    def signal(self, number: signal.Signals) -> bool:
        """Send the process a signal; False if it does not live."""
        process = self._process()
        if process is None:
            return False
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            return False
        return True

    def stop(self, timeout_s: float) -> bool:
        """SIGTERM, and SIGKILL after the timeout; a paused process is continued. False if it did not live."""
        lived = self.request_stop()
        self.wait_or_kill(timeout_s)
        return lived

    def request_stop(self) -> bool:
        """Send SIGTERM without waiting; `wait_or_kill` completes it. False if the process does not live."""
        lived = self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused process gets no other signal
        return lived

    def kill(self) -> bool:
        """SIGKILL, like a crash; returns when the process is gone. False if it did not live."""
        lived = self.signal(signal.SIGKILL)
        self.wait_or_kill(20.0)
        return lived

    def wait_or_kill(self, timeout_s: float) -> None:
        """Wait for the end, kill the process after the timeout, and forget it."""
        process = self._process()
        if process is not None and not self._ends_within(timeout_s):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
            self._ends_within(20.0)
        if self._child is not None:
            self._child.poll()  # reaps it
        self.pid_file.unlink(missing_ok=True)

    def last_words(self, characters: int = 1_500) -> str:
        """The end of its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - characters))
                return log.read().decode(errors="replace").strip() or "its log is empty"
        except FileNotFoundError:
            return "it has no log"

    def _process(self) -> psutil.Process | None:
        if self._child is not None:
            self._child.poll()  # reaps a child that has ended
        try:
            pid, ticks = map(int, self.pid_file.read_text().split())
            if _start_ticks(pid) != ticks:
                return None
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE and not _has_threads(pid) else process
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None

    def _ends_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process() is None:
                return True
            time.sleep(0.05)
        return self._process() is None


def _start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; raises psutil.NoSuchProcess."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    return int(text.rpartition(")")[2].split()[19])


def _has_threads(pid: int) -> bool:
    """Whether threads of a process live whose first one is gone: a killed JVM holds its ports until they end, too."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except FileNotFoundError:
        return False
