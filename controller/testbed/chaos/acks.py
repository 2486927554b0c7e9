"""Whether the clients go on: when each topic of the producer was acknowledged last, by the log that it writes.

After an outage the brokers serve the clients' backlog, no faster than their configured capacity allows. Until then the
bundles are served according to the journal, and clients still wait.
"""

from __future__ import annotations

import json
from pathlib import Path

from controller.process.clock import boot_ms

SILENT_MS = 2_500.0  # the slowest topic gets a message a second


class AckWatch:
    """Reads the log from where it stopped before. A topic counts once it has been acknowledged."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self._topics: dict[int, str] = {}
        self._acked_ms: dict[int, float] = {}

    def waiting(self) -> list[str]:
        """The topics that were acknowledged before and not within the last `SILENT_MS`."""
        self._read_on()
        now_ms = boot_ms()
        return sorted(self._topics[i] for i, at_ms in self._acked_ms.items() if now_ms - at_ms > SILENT_MS)

    def _read_on(self) -> None:
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        for line in whole.splitlines():
            said = json.loads(line)
            if said["t"] == "topic":
                self._topics[said["i"]] = said["topic"]
            elif said["t"] == "acked":
                for number, *_ in said["a"]:
                    self._acked_ms[number] = said["at"]
