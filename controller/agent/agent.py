"""The agent of one broker: wires everything in this folder together, on one event loop.

Static stability: while heartbeats are acknowledged, the agent keeps serving and answering lookups even without the
controller, the tables or the feed. It can be killed at any moment: its lease expires and others take over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from starlette.routing import Route

from controller.agent.connections import AgentConnections, Reader
from controller.agent.directory import AgentDirectory, address_of
from controller.agent.event_publisher import EventPublisher
from controller.agent.feed_health import FeedHealth
from controller.agent.handover.driver import HandoverDriver
from controller.agent.health import list_troubles
from controller.agent.lifecycle import AGAIN, LOST, OK, Ending, Lifecycle, stop_in_time
from controller.agent.lookup import LookupService
from controller.agent.metrics import AgentMetrics
from controller.agent.options import AgentOptions
from controller.agent.periodic import run_periodically
from controller.agent.records import describe_broker
from controller.agent.reports.reporter import Host, Reporter
from controller.agent.reports.split_proposals import SplitWatch
from controller.agent.session import registration
from controller.agent.session.departure import LEAVING, Departure
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.rivals import Rivals, describe_rival
from controller.agent.session.self_fencing import SelfFencing
from controller.agent.session.session import Sessions
from controller.agent.signal import Signal
from controller.agent.watcher import Watcher
from controller.brokers.runtime import BrokerRuntime
from controller.domain.entries import Entry
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.ids import check_broker_id, check_nonce
from controller.process import clock

log = logging.getLogger(__name__)

CHECK_MS = 100  # how late an expired lease is noticed at most; well below the controller's margin
DRIVE_MS = 250  # between two looks for answers and failed work to repeat, which happens after a second


class Agent:
    """One broker's agent. `run` returns once the agent has left, lost its place or failed."""

    def __init__(
        self,
        broker: str,
        nonce: str,
        runtime: BrokerRuntime,
        connections: AgentConnections,
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
        """Raises ConfigError unless `broker` and `nonce` are as `check_broker_id` and `check_nonce` say: the controller
        would take no record of this agent. `nonce` is random, new for each process. `splits` None: no splits are
        proposed. `process`: host, pid and started_ms, for the error message of a second process with this broker id.
        `on_begin` is called once the journal has been read and no other such process was heard."""
        try:
            self.broker, self._nonce = check_broker_id(broker), check_nonce(nonce)
        except BadRecord as error:
            raise ConfigError(f"{error.rule_id}: {error.text}") from None
        self.metrics = metrics or AgentMetrics()
        self.changes = Signal()
        self._runtime = runtime
        self._connections = connections
        self._options = options
        self._describe = partial(describe_broker, runtime, lookup_url, capacity or {}, process or {})
        self._on_begin = on_begin or (lambda: None)
        self._boot_ms, self._wall_ms = boot_ms, wall_ms
        self._life = Lifecycle(connections)
        self._report_soon = asyncio.Event()
        health = FeedHealth(options.lease_ms, boot_ms(), random.random() if jitter is None else jitter)
        self.watcher = Watcher(
            connections.journal,
            connections.names.journal_feed,
            poll_ms=options.journal_poll_ms,
            health=health,
            on_applied=self._on_applied,
            on_jump=self._on_jump,
            on_event=lambda event: self._driver.on_event(event),
            on_failure=self._life.fail,
            boot_ms=boot_ms,
            metrics=self.metrics,
            speaks_for=connections.names.speaks_for,
        )
        self.publisher = EventPublisher(
            broker,
            connections.urgent,
            connections.names,
            sessions=lambda: self._living,
            state=lambda: self.watcher.state,
            wall_ms=wall_ms,
        )
        self._driver = HandoverDriver(
            runtime,
            say=self.publisher.answer,
            may_act=self.may_serve,
            on_moved=self._report_soon.set,
            where=lambda session: address_of(self.watcher.state, session),
            boot_ms=boot_ms,
            metrics=self.metrics,
        )
        self._reporter = Reporter(
            runtime,
            connections.bulk,
            connections.names.of_broker(broker).load_reports,
            top_k=options.top_k_bundles,
            wall_ms=wall_ms,
            metrics=self.metrics,
            host=host,
            throughput_as_bandwidth=options.message_throughput_as_bandwidth,
            nic_bytes_per_s=options.nic_bytes_per_s,
            splits=splits,
            propose=self.publisher.propose,
        )
        self._departure = Departure(
            broker,
            publisher=self.publisher,
            changes=self.changes,
            state=lambda: self.watcher.state,
            idle=lambda: self._driver.core is None or self._driver.core.idle(),
            boot_ms=boot_ms,
            timeout_ms=options.leave_timeout_ms,
        )
        self._lookup = LookupService(
            lambda: self.watcher.state if self.watcher.ready else None,
            self.changes,
            self.publisher.ask_for,
            options.lookup_wait_ms,
            self.metrics,
            self.may_serve,
        )
        self.sessions: Sessions | None = None
        self._fencing = SelfFencing(lambda: self._living, health, self._send_inventory, boot_ms)

    # ---------------------------------------------------------------- for the process around it

    def routes(self) -> list[Route]:
        """The HTTP routes beside health and metrics."""
        return self._lookup.routes()

    def health(self) -> list[str]:
        """A sentence for each trouble; an empty list means healthy."""
        of_runtime: Callable[[], list[str]] | None = getattr(self._runtime, "troubles", None)
        own = of_runtime() if of_runtime is not None else []
        return [*list_troubles(self.watcher, self.sessions, self._boot_ms()), *own]

    def may_serve(self) -> bool:
        """Whether the session is registered and its lease valid at this very moment."""
        return self.sessions is not None and self.sessions.may_act()

    def leave(self) -> None:
        """Hand everything over, then end `run`. Call this in the loop or in a signal handler of it."""
        self._departure.ask()

    async def run(self) -> Ending:
        """Run until the agent has left, lost its place, or broken an invariant; then stop all that was started.

        Raises what `runtime.start` raises, also after that: nothing had begun. What the runtime raises later is in the
        ending: code 4 if one of the periodic tasks met it, 1 if the runtime did not stop. Raises RuntimeError when
        called a second time.
        """
        self._life.begin()
        names = self._connections.names
        reader = self._life.open_reader([names.journal_feed, *names.all_broker_events], self.watcher.take)
        try:
            ending = await self._run(reader)
        finally:
            trouble = await self._stop(reader)
        if trouble and ending.code == OK:
            return Ending(AGAIN, f"{ending.text}, but {trouble}")
        return ending

    async def _run(self, reader: Reader) -> Ending:
        await self._runtime.start(AgentDirectory(lambda: self.watcher.state))
        if not await self._departure.run_unless_asked(self._life.run_unless_ended(self.watcher.start(reader))):
            return Ending(OK, "left before the journal could be read")
        if self._life.has_ended:
            return await self._life.ending()
        self._life.start(self.watcher.run())
        if not await self._departure.run_unless_asked(self._listen_for_rivals()):
            return Ending(OK, "left before it was known whether another process is this broker")
        if not self._life.has_ended:
            self._on_begin()
            self._begin()
            for task in self._tasks():
                self._life.start(task)
        return await self._life.ending()

    async def _stop(self, reader: Reader) -> str:
        """Stop everything; returns why the runtime did not stop, or nothing."""
        try:
            if self.sessions is not None:
                await self.sessions.finish()
            await self._life.stop()
            await asyncio.to_thread(reader.stop)
            self.watcher.close()
        finally:
            trouble = await stop_in_time(self._runtime)
        return trouble

    # ---------------------------------------------------------------- session and tasks

    def _begin(self) -> None:
        self.sessions = Sessions(
            registration.first_session(self.watcher.state, self.broker, self._nonce),
            driver=self._driver,
            heartbeats=HeartbeatSender(
                self._connections.urgent,
                self._connections.names,
                boot_ms=self._boot_ms,
                wall_ms=self._wall_ms,
                metrics=self.metrics,
            ),
            state=lambda: self.watcher.state,
            info=self._describe(),
            lease_ms=self._options.lease_ms,
            refuses=lambda bundle: LEAVING if self._departure.asked else self._runtime.refuses(bundle),
            halves=self._reporter.halves,
            hears=self.watcher.health.hears,
            deregister=self.publisher.deregister,
            on_registered=self._send_inventory,
            on_replaced=self._life.give_way,
            on_stuck=lambda text: self._life.end(AGAIN, text),
            boot_ms=self._boot_ms,
            metrics=self.metrics,
        )

    async def _listen_for_rivals(self) -> None:
        """Where the journal names a living session of this broker, its heartbeats tell whether its process lives."""
        session = self.watcher.state.session_of(self.broker)
        if session is None or self._options.take_over:
            return
        log.info("the journal says that %s lives: listening for its process", session)
        rivals = Rivals(self.broker, self._nonce)
        topic = self._connections.names.of_broker(self.broker).heartbeats
        reader = self._life.open_reader([topic], rivals.take)
        rival = await rivals.listen(reader, lambda: self.watcher.state, self._options.lease_ms, self._boot_ms)
        if rival is not None:
            self._life.end(LOST, describe_rival(rival))

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        options, living = self._options, self._living
        return [
            run_periodically(options.heartbeat_ms, living.send_heartbeat),
            run_periodically(CHECK_MS, self._fencing.check),
            run_periodically(DRIVE_MS, self._driver.tick),
            run_periodically(options.inventory_interval_ms, self._send_inventory),
            self._reporter.run(
                options.report_interval_ms, lambda: living.current if living.may_act() else None, self._report_soon
            ),
            self._leave(),
        ]

    async def _leave(self) -> None:
        self._life.end(OK, await self._departure.depart(self._living))

    # ---------------------------------------------------------------- what happens to it

    @property
    def _living(self) -> Sessions:
        assert self.sessions is not None, "the agent has not begun"
        return self.sessions

    def _on_applied(self, entries: Sequence[Entry]) -> None:
        if self.sessions is not None:
            self.sessions.on_applied(entries)
        self.changes.wake()

    def _on_jump(self) -> None:
        if self.sessions is not None:
            self.sessions.on_jump()
        self.changes.wake()

    def _send_inventory(self) -> Future[tuple[int, int]] | None:
        """Send all bundles served, with epochs."""
        core = self._driver.core
        serving = self._runtime.serving() if core is None else core.inventory()
        return self.publisher.serving("inventory", serving)
