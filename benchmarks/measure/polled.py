"""What a benchmark watches from a thread of its own while it measures."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

POLL_S = 0.05
_P = TypeVar("_P", bound="Polled")


class Polled(ABC):
    """Calls `poll` every POLL_S while it is entered."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self: _P) -> _P:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    @abstractmethod
    def poll(self) -> None:
        """Look at what has changed since the last look."""

    def _run(self) -> None:
        while not self._stopping.wait(POLL_S):
            self.poll()
