"""The agent of one broker: everything in this folder put together, on one event loop.

Static stability: with the controller, the tables or the feed silent, but heartbeats acknowledged, it keeps serving
and answering lookups. Killed at any moment, nothing is lost: its lease runs out and others take over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from starlette.routing import Route

from controller.agent.connections import Wires
from controller.agent.directory import AgentDirectory, address_of
from controller.agent.event_publisher import Voice
from controller.agent.feed_health import FeedHealth, Hearing
from controller.agent.handover.driver import HandoverDriver
from controller.agent.lookup import Changes, LookupService
from controller.agent.metrics import AgentMetrics
from controller.agent.options import AgentOptions
from controller.agent.periodic import every
from controller.agent.reports.reporter import Host, Reporter
from controller.agent.reports.split_proposals import SplitWatch
from controller.agent.session import registration
from controller.agent.session.departure import LEAVING, Departure
from controller.agent.session.heartbeat import Heart
from controller.agent.session.rivals import Rivals, told
from controller.agent.session.session import CUT_OFF, Sessions
from controller.agent.watcher import Watcher
from controller.brokers.runtime import BrokerRuntime
from controller.domain.entries import Entry
from controller.process import clock

log = logging.getLogger(__name__)

OK, LOST, BROKEN = 0, 3, 4  # exit codes: left, replaced by another process, an invariant broke
CHECK_MS = 100  # how late a lapse is noticed where nothing else happens; well below the controller's margin
STRAY_FOR_MS = 60_000  # so long after its last word a controller of another journal is a trouble
DRIVE_MS = 250  # answers and failed work are repeated after a second


class Ending(NamedTuple):
    """How an agent's run ended."""

    code: int
    text: str


class Agent:
    """One broker's agent. `run` returns when it has left, lost its place or broken."""

    def __init__(
        self,
        broker: str,
        nonce: str,
        runtime: BrokerRuntime,
        wires: Wires,
        options: AgentOptions,
        *,
        lookup_url: str = "",
        capacity: Mapping[str, Any] | None = None,
        host: Host | None = None,
        splits: SplitWatch | None = None,
        metrics: AgentMetrics | None = None,
        process: Mapping[str, Any] | None = None,
        on_begin: Callable[[], None] | None = None,
        boot_ms: Callable[[], int] = clock.boot_ms,
        wall_ms: Callable[[], int] = clock.wall_ms,
        jitter: float | None = None,
    ) -> None:
        """`nonce` is random and alphanumeric, new for each process. `splits` None: no splits are proposed. `process`:
        host, pid, started_ms, by which a second one of this broker id names it. `on_begin`: called once the journal has
        been read and no such second one was heard."""
        self.broker = broker
        self.metrics = metrics or AgentMetrics()
        self.changes = Changes()
        self._nonce = nonce
        self._runtime = runtime
        self._wires = wires
        self._options = options
        self._lookup_url = lookup_url
        self._capacity = dict(capacity or {})
        self._process = dict(process or {})
        self._on_begin = on_begin
        self._boot_ms, self._wall_ms = boot_ms, wall_ms
        self._ended: asyncio.Future[Ending] | None = None
        self._report_soon = asyncio.Event()
        health = FeedHealth(options.lease_ms, boot_ms(), random.random() if jitter is None else jitter)
        self.watcher = Watcher(
            wires.journal,
            wires.names.journal_feed,
            poll_ms=options.journal_poll_ms,
            health=health,
            on_applied=self._on_applied,
            on_jump=self._on_jump,
            on_event=lambda event: self._driver.on_event(event),
            on_failure=self._broken,
            boot_ms=boot_ms,
            metrics=self.metrics,
        )
        self.voice = Voice(
            broker,
            wires.urgent,
            wires.names,
            sessions=lambda: self._living,
            state=lambda: self.watcher.state,
            wall_ms=wall_ms,
        )
        self._driver = HandoverDriver(
            runtime,
            say=self.voice.answer,
            may_act=self.may_serve,
            on_moved=self._report_soon.set,
            where=lambda session: address_of(self.watcher.state, session),
            boot_ms=boot_ms,
            metrics=self.metrics,
        )
        self._reporter = Reporter(
            runtime,
            wires.bulk,
            wires.names.load_reports,
            top_k=options.top_k_bundles,
            wall_ms=wall_ms,
            metrics=self.metrics,
            host=host,
            throughput_as_bandwidth=options.message_throughput_as_bandwidth,
            nic_bytes_per_s=options.nic_bytes_per_s,
            splits=splits,
            propose=self.voice.propose,
        )
        self._departure = Departure(
            broker,
            voice=self.voice,
            changes=self.changes,
            state=lambda: self.watcher.state,
            idle=lambda: self._driver.core is None or self._driver.core.idle(),
            boot_ms=boot_ms,
            timeout_ms=options.leave_timeout_ms,
        )
        self._lookup = LookupService(
            lambda: self.watcher.state if self.watcher.ready else None,
            self.changes,
            self.voice.ask_for,
            options.lookup_wait_ms,
            self.metrics,
            self.may_serve,
        )
        self.sessions: Sessions | None = None

    # ---------------------------------------------------------------- for the process around it

    def routes(self) -> list[Route]:
        """What it answers over HTTP, beside health and metrics."""
        return self._lookup.routes()

    def health(self) -> list[str]:
        """Troubles in words; none means healthy."""
        troubles = []
        if not self.watcher.ready:
            troubles.append("the journal has not been read yet")
        elif self.sessions is None or not self.sessions.registered:
            troubles.append("the session is not registered")
        elif not self.sessions.may_act():
            troubles.append("the lease has lapsed")
        if self.watcher.failing:
            troubles.append(f"the journal's table cannot be read: {self.watcher.failing}")
        stray = self.watcher.stray
        if stray is not None and self._boot_ms() - stray[1] <= STRAY_FOR_MS:
            troubles.append(
                f"a controller of journal {stray[0]} speaks here, this agent follows {self.watcher.state.journal_id}: "
                "if that one is gone for good, start the agent again"
            )
        if self.watcher.state.seq < self.watcher.known_seq:
            troubles.append(f"behind: seq {self.watcher.state.seq} of {self.watcher.known_seq}")
        return troubles

    def may_serve(self) -> bool:
        """Whether the session is registered and its lease lives at this very moment."""
        return self.sessions is not None and self.sessions.may_act()

    def leave(self) -> None:
        """Hand everything over, then end `run`. From the loop, or a signal handler of it."""
        self._departure.ask()

    async def run(self) -> Ending:
        """Until it has left, or lost its place, or an invariant broke."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        reader = self._wires.reader(
            [self._wires.names.journal_feed, self._wires.names.broker_events],
            self.watcher.take,
            lambda error: self._broken_elsewhere(loop, error),
        )
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._runtime.start(AgentDirectory(lambda: self.watcher.state))
            if not await self._departure.unless_asked(self.watcher.start(reader)):
                return Ending(OK, "left before the journal could be read")
            tasks.append(self._start_part(self.watcher.run()))
            if not await self._departure.unless_asked(self._listen_for_rivals()):
                return Ending(OK, "left before it was known whether another process is this broker")
            if not self._ended.done():
                if self._on_begin is not None:
                    self._on_begin()
                self._begin()
                tasks += [self._start_part(part) for part in self._parts()]
            return await self._ended
        finally:
            if self.sessions is not None:
                await self.sessions.finish()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await loop.run_in_executor(None, reader.stop)
            self.watcher.close()
            await self._runtime.stop()

    # ---------------------------------------------------------------- its parts

    def _begin(self) -> None:
        self.sessions = Sessions(
            registration.first_session(self.watcher.state, self.broker, self._nonce),
            driver=self._driver,
            heart=Heart(
                self._wires.urgent,
                self._wires.names.heartbeats,
                boot_ms=self._boot_ms,
                wall_ms=self._wall_ms,
                metrics=self.metrics,
            ),
            state=lambda: self.watcher.state,
            info={
                "runtime": self._runtime.kind,
                "can_fence": self._runtime.can_fence,
                "version": self._runtime.version,
                "lookup_url": self._lookup_url,
                "data_address": self._runtime.data_address,
                "capacity": self._capacity,
                **self._process,
            },
            lease_ms=self._options.lease_ms,
            refuses=lambda bundle: LEAVING if self._departure.asked else self._runtime.refuses(bundle),
            halves=self._reporter.halves,
            hears=self.watcher.health.hears,
            goodbye=self.voice.goodbye,
            on_registered=self._inventory,
            on_lost=lambda text: self._end(LOST, text),
            boot_ms=self._boot_ms,
            metrics=self.metrics,
        )

    async def _listen_for_rivals(self) -> None:
        """Where the journal says that a session of this broker lives, a lease shows whether its process does. A session
        that ends meanwhile needs no more listening: it said goodbye, or its lease ran out."""
        session = self.watcher.state.session_of(self.broker)
        if session is None or self._options.take_over:
            return
        log.info("the journal says that %s lives: listening for its process", session)
        loop, rivals = asyncio.get_running_loop(), Rivals(self.broker, self._nonce)
        reader = self._wires.reader(
            [self._wires.names.heartbeats], rivals.take, lambda error: self._broken_elsewhere(loop, error)
        )
        await loop.run_in_executor(None, reader.start)
        try:
            until_ms = self._boot_ms() + self._options.lease_ms
            while self._boot_ms() < until_ms and self.watcher.state.session_of(self.broker) is not None:
                if rivals.living is not None:
                    return self._end(LOST, told(rivals.living))
                await asyncio.sleep(CHECK_MS / 1000)
        finally:
            await loop.run_in_executor(None, reader.stop)

    def _start_part(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(part)
        task.add_done_callback(self._part_ended)
        return task

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        options, living = self._options, self._living
        return [
            every(options.heartbeat_ms, living.beat),
            every(CHECK_MS, self._check),
            every(DRIVE_MS, self._driver.tick),
            every(options.inventory_interval_ms, self._inventory),
            self._reporter.run(
                options.report_interval_ms, lambda: living.current if living.may_act() else None, self._report_soon
            ),
            self._leave(),
        ]

    def _check(self) -> None:
        """Whether the session may go on."""
        living = self._living
        living.check_lease()
        hearing = self.watcher.health.judge(self._boot_ms()) if living.registered else Hearing.FINE
        if hearing is Hearing.CUT:
            living.end(CUT_OFF, self.watcher.health.reason)
        elif hearing is Hearing.PROBE:
            self._probe()

    async def _leave(self) -> None:
        self._end(OK, await self._departure.depart(self._living))

    # ---------------------------------------------------------------- what it hears and says

    @property
    def _living(self) -> Sessions:
        assert self.sessions is not None, "the agent has not begun"
        return self.sessions

    def _on_applied(self, entries: Sequence[Entry]) -> None:
        if self.sessions is not None:
            self.sessions.on_applied(entries)
        self.changes.notify()

    def _on_jump(self) -> None:
        if self.sessions is not None:
            self.sessions.on_jump()
        self.changes.notify()

    def _inventory(self) -> Future[tuple[int, int]] | None:
        """All that is served, with epochs; where the broker's own metadata decides, what that says."""
        core = self._driver.core
        if self._runtime.kind == "pulsar" or core is None:
            return self.voice.serving("observed", self._runtime.serving())
        return self.voice.serving("inventory", core.inventory())

    def _probe(self) -> None:
        """Silence: an inventory that must come back proves that this agent can still fetch from Kafka."""
        loop, sent = asyncio.get_running_loop(), self._inventory()

        def acknowledged(done: Future[tuple[int, int]]) -> None:
            if done.exception() is None and not loop.is_closed():
                loop.call_soon_threadsafe(lambda: self.watcher.health.on_probe_acked(self._boot_ms()))

        if sent is not None:
            sent.add_done_callback(acknowledged)

    # ---------------------------------------------------------------- how it ends

    def _broken(self, error: BaseException) -> None:
        log.error("the agent cannot go on", exc_info=error)
        self._end(BROKEN, f"{type(error).__name__}: {error}")

    def _broken_elsewhere(self, loop: asyncio.AbstractEventLoop, error: Exception) -> None:
        loop.call_soon_threadsafe(self._broken, error)

    def _part_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broken(task.exception() or RuntimeError("a part ended"))

    def _end(self, code: int, text: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(Ending(code, text))
