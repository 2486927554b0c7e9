"""The segment store of the reference brokers: the real server and engine, in a process that may be killed or stopped.

Messages, acknowledgements and fences are files in a folder, which outlive the process as they do on a real machine. The
next process recovers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.brokers.reference.store import dump
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.server import StoreServer
from controller.domain.errors import InvariantBroken, StoreError
from controller.testbed.checker.topic import Findings, check_stored
from controller.testbed.simulated.checks.fences import ConfirmedFences, open_engine
from controller.testbed.simulated.network import HOST, SimNetwork
from controller.testbed.simulated.virtual_loop import VirtualLoop, unforeseen
from controller.testbed.simulated.world import WallClock, draw_rate

PORT = 9_400
SUBSCRIPTION = "s"  # of clients, one a topic
RESTART_MS = 1_000
ADDRESS = f"{HOST}:{PORT}"


class SimMessageStore:
    """The store of one run, in `folder`. `begin` first; it lives until `kill`, then again from `begin` on."""

    def __init__(self, network: SimNetwork, folder: Path, breach: Callable[[str], None]) -> None:
        self.folder = folder
        self.alive = False
        self.flushes_fail = 0.0  # the part of the flushes to the disk that fail
        self._network, self._processes = network, 0
        self._loops: list[VirtualLoop] = []
        self._breach = breach
        self._dice = network.world.dice("disk of the store")
        self._rate = draw_rate(network.world.dice("clock of the store"))
        self.wall_clock = WallClock(network.world, self._rate)
        self._fences = ConfirmedFences(breach)

    def begin(self) -> None:
        """Start a process: recover what is stored, and listen. Raises StoreError when it cannot."""
        self.engine = open_engine(self.folder, self.wall_clock, self._flush, self._fences)
        self._processes += 1
        self.alive = True
        self.loop = VirtualLoop(self._network, f"store-{self._processes}", self._rate)
        self.loop.set_exception_handler(self._note_failure)
        self._loops.append(self.loop)
        self._server = StoreServer(self.engine, on_failure=self._end)
        self.loop.create_task(self._server.start(HOST, PORT))

    def kill(self) -> None:
        """SIGKILL."""
        if self.alive:
            self.alive, self.flushes_fail = False, 0.0
            self.loop.halt()
            self._network.kill(self.loop)
            self.engine.close()  # its files: all that was answered is in them

    def _flush(self, descriptor: int) -> None:
        """Instead of `os.fsync`: the files are in memory."""
        if self.flushes_fail and self._dice.random() < self.flushes_fail:
            raise OSError("the disk failed")

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if loop is self.loop and self.alive and (failure := unforeseen(context)):
            self._breach(f"an exception was lost in the store: {failure}")

    def _end(self) -> None:
        """The process ends by itself, as it cannot flush; the supervisor starts the next one."""
        self._network.world.after(0, self.kill)
        self._network.world.after(RESTART_MS, self._begin_again)

    def _begin_again(self) -> None:
        if not self.alive:
            try:
                self.begin()
            except (OSError, StoreError):  # the disk still fails
                self._network.world.after(RESTART_MS, self._begin_again)

    def pause(self, ms: float) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        self.loop.paused_until_ms = self._network.world.now_ms + ms

    def end_faults(self) -> None:
        """SIGCONT, or a new process."""
        self.loop.paused_until_ms = self.flushes_fail = 0.0
        self._begin_again()

    def holds(self, topic: str, offset: int) -> bool:
        """Whether a message with this offset is stored now."""
        return 0 <= offset < self.engine.create_topic(topic).log.next_offset

    def check(self) -> None:
        """Raise InvariantBroken unless every stored message was written under the fence that was in force, once, and in
        its producer's order: the demo's checker reads the files."""
        found, fences = Findings(), dump.fences(self.folder)
        for topic in dump.topics(self.folder):
            check_stored(topic.name, topic.records(), fences, found)
        if found.texts:
            raise InvariantBroken(f"store: {found.texts[0]}")
        self._fences.check_in_force(self.engine)

    def acknowledged(self, topic: str) -> Cursor:
        """What is acknowledged of the clients' subscription to a topic, in the store."""
        return self.engine.create_topic(topic).cursors.get(SUBSCRIPTION, Cursor())

    def close(self) -> None:
        """End it."""
        self.kill()
        for loop in self._loops:
            loop.unwind()
