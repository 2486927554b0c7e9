"""Child processes of a local cluster: each is started with a log file, and stopped by its pid, never by name.

Every child has a session (process group) of its own, so that Ctrl-C in a terminal reaches only the parent, which then
stops the children in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.domain.errors import BallastError
from controller.process.interrupts import check_interrupt


class ProcessFailed(BallastError):
    """Raised when a child ended, or did not log an expected line in time; the message ends with its last log lines."""


class Child:
    """One process and its log."""

    def __init__(
        self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None, stdin: bool = False,
        folder: Path | None = None,
    ) -> None:  # fmt: skip
        """`env` is added to this process's. `folder`: where it works, by default where this process does."""
        self.name = name
        self.argv = list(argv)
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self.process.poll() is None

    def tell(self, line: str) -> None:
        """Write one line to its standard input."""
        if self.process.stdin is None:
            raise ProcessFailed(f"{self.name} was started without an input")
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def terminate(self) -> None:
        """Send SIGTERM to the process itself, not to its children."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the whole group, so that no process of it is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end, and kill it after the timeout; returns the exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait(10)

    def stop(self, timeout_s: float = 20.0) -> int:
        """Send SIGTERM and wait, and kill it after the timeout; returns the exit code."""
        self.terminate()
        return self.wait(timeout_s)

    def wait_for_line(self, needle: str, timeout_s: float) -> str:
        """The first log line that contains the text. Raises ProcessFailed when it does not come in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            for line in self.log.read_text(errors="replace").splitlines():
                if needle in line:
                    return line
            if not self.alive:
                raise ProcessFailed(f"{self.name} ended with {self.process.returncode}: {self.last_words()}")
            check_interrupt()
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} did not say {needle!r} in {timeout_s:g} s: {self.last_words()}")
            time.sleep(0.05)

    def last_words(self, lines: int = 12) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
