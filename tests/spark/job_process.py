"""The job as operators run it, `ballast run`: a process group of its own, its log, its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STOP_S = 180.0  # a start on a busy machine; only a hang takes longer


class Job:
    """One run of the job, with the configuration `ballast.yaml` of a folder."""

    def __init__(self, folder: Path, *arguments: str, failpoints: str = "") -> None:
        """`failpoints`: as BALLAST_FAILPOINTS says it."""
        self.log = folder / f"job-{time.monotonic_ns()}.log"
        self.pid_file = folder / "job.pid"
        command = [sys.executable, "-m", "controller.cli.main", "run", "--conf", str(folder / "ballast.yaml")]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "--pid-file", str(self.pid_file), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "BALLAST_FAILPOINTS": failpoints},
            )

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self, timeout_s: float = STOP_S) -> int:
        """Its exit code."""
        return self.process.wait(timeout_s)

    def ends_within(self, timeout_s: float) -> bool:
        """Whether it ends in this time."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.terminate()
        return self.wait()

    def pause(self) -> None:
        """SIGSTOP to JVM, driver and round worker."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT to all of them."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        """SIGKILL to all that is left of it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
