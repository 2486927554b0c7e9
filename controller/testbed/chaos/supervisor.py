"""Starts again what has ended, after a pause, as systemd would; what is held, or has ended for good, stays down."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType, TracebackType
from typing import NamedTuple

from controller.process.children import Child

LOOKS_EVERY_S = 0.2
RESTARTED_AFTER_S = 2.0


class End(NamedTuple):
    """A process that ended by itself, rather than by a SIGKILL of the nemesis."""

    name: str
    code: int


class Supervisor:
    """A context manager. `starts`: by name, what starts a process; `children`: the processes as they run now; `final`:
    by name, the exit codes after which nothing is started again."""

    def __init__(
        self,
        starts: Mapping[str, Callable[[], Child]],
        children: Mapping[str, Child],
        final: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        self._starts, self._children, self._final = starts, children, final
        self._held: set[str] = set()
        self._over: set[str] = set()
        self._due_s: dict[str, float] = {}
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self.ends: list[End] = []
        self.failure: BaseException | None = None

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(30)

    def kill(self, name: str) -> None:
        """SIGKILL to the process and its children. It stays down until `release`."""
        with self._lock:
            self._held.add(name)
            self._children[name].kill()

    def release(self, name: str) -> None:
        """It may be started again."""
        with self._lock:
            self._held.discard(name)

    def _watch(self) -> None:
        while not self._stopped.wait(LOOKS_EVERY_S):
            try:
                for name in self._starts:
                    with self._lock:
                        self._look_after(name)
            except Exception as error:  # shown by whoever waits for the process
                self.failure = error
                return

    def _look_after(self, name: str) -> None:
        if name in self._held or name in self._over or self._children[name].alive:
            self._due_s.pop(name, None)
            return
        if name not in self._due_s:
            code = int(self._children[name].process.returncode)
            if code != -signal.SIGKILL:
                self.ends.append(End(name, code))
            if code in self._final.get(name, ()):
                self._over.add(name)
                return
            self._due_s[name] = time.monotonic() + RESTARTED_AFTER_S
        elif time.monotonic() >= self._due_s[name]:
            self._starts[name]()
