"""The agent of one Pulsar cluster: polls its brokers, tells the journal what it sees, carries out orders.

One process holds a session for every broker. It never fails anything over: Pulsar does. When it dies, Pulsar serves on,
and nothing is balanced until an agent runs again. An unload or a split is sent only while the source's lease lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from controller.agent.cluster.another_cluster import check_cluster
from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.executor import OrderExecutor
from controller.agent.cluster.facts import FactReader
from controller.agent.cluster.metrics import ClusterMetrics
from controller.agent.cluster.non_persistent import NonPersistentTopics
from controller.agent.cluster.observer import Listing, Observer
from controller.agent.cluster.rivals import ClusterRivals, listen_for_rivals
from controller.agent.cluster.sessions import ClusterSessions
from controller.agent.cluster.speaker import Speaker
from controller.agent.cluster.suspects import Suspects
from controller.agent.connections import AgentConnections
from controller.agent.feed_health import FeedHealth
from controller.agent.lifecycle import LOST, OK, Ending, Lifecycle
from controller.agent.metrics import AgentMetrics
from controller.agent.options import AgentOptions
from controller.agent.periodic import run_periodically
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.watcher import Watcher
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.brokers.pulsar.poll import ClusterPoll, Polled
from controller.domain.entries import Entry
from controller.domain.events import UNLISTED
from controller.domain.facts import answer_timeout_ms
from controller.domain.ids import Session
from controller.domain.state import METADATA
from controller.loads.recorded import Overrides, Recorded, to_load_report
from controller.process import clock

RINGS_EVERY_MS = 300_000  # rings are read again in this time, one namespace after the other


class ClusterAgent:
    """`run` returns once it was told to leave, lost its place to another agent, or failed."""

    def __init__(
        self,
        nonce: str,
        poll: ClusterPoll,
        connections: AgentConnections,
        options: AgentOptions,
        overrides: Overrides,
        *,
        poll_ms: int = 5_000,
        standby: bool = False,
        new_brokers: bool = False,
        margin_ms: int = 1_000,
        process: Mapping[str, Any] | None = None,
        metrics: AgentMetrics | None = None,
        on_begin: Callable[[], None] = lambda: None,
        boot_ms: Callable[[], int] = clock.boot_ms,
        wall_ms: Callable[[], int] = clock.wall_ms,
    ) -> None:
        """`poll`: started. `overrides`: how Pulsar's figures are taken. `standby`: wait while another agent lives.
        `new_brokers`: start although the journal knows none of the cluster's brokers."""
        self.metrics = metrics or AgentMetrics()
        self.cluster_metrics = ClusterMetrics(self.metrics.registry, lambda: boot_ms() / 1000)
        poll.on_topics_read = self.cluster_metrics.note_topics_read
        self._nonce, self._poll, self._connections, self._options = nonce, poll, connections, options
        self._overrides, self._poll_ms, self._standby, self._margin_ms = overrides, poll_ms, standby, margin_ms
        self._new_brokers = new_brokers
        self._process, self._on_begin = dict(process or {}), on_begin
        self._boot_ms, self._wall_ms = boot_ms, wall_ms
        self._life = Lifecycle(connections)
        self._asked = asyncio.Event()
        self.observer = Observer()
        health = FeedHealth(options.lease_ms, boot_ms(), 0.5)
        self.watcher = Watcher(
            connections.journal,
            connections.names.journal_feed,
            poll_ms=options.journal_poll_ms,
            health=health,
            on_applied=self._on_applied,
            on_jump=self._on_changed,
            on_event=lambda event: None,
            on_failure=self._life.fail,
            boot_ms=boot_ms,
            metrics=self.metrics,
        )
        heartbeats = HeartbeatSender(
            connections.urgent, connections.names, boot_ms=boot_ms, wall_ms=wall_ms, metrics=self.metrics
        )
        self.sessions = ClusterSessions(
            nonce,
            options.lease_ms,
            heartbeats,
            lambda: self.watcher.state,
            boot_ms,
            self._life.give_way,
        )
        self._calls = PulsarCalls(
            poll.admin,
            self.observer,
            exclude_namespaces(poll.admin.settings.excluded_namespaces),
            cluster=lambda: self._poll.cluster,
            addresses=lambda: self._poll.members.addresses,
            timeout_s=lambda b: answer_timeout_ms(self.watcher.state.observed.facts, b) / 1000,
            on_denied=lambda why: self._fact_reader.note_denied(why),
            find_stats=poll.find_stats,
        )
        self._speaker = Speaker(connections, self.sessions, lambda: self.watcher.state, self._calls.read_ring, wall_ms)
        spare = not poll.admin.settings.move_non_persistent
        self._non_persistent = NonPersistentTopics(spare, lambda: boot_ms() / 1000)
        self._fact_reader = FactReader(poll, self._calls, self._speaker, self._non_persistent, boot_ms)
        self._suspects = Suspects(self.observer, self._speaker)
        self._executor = OrderExecutor(
            nonce, self._calls, self._speaker, self.sessions, self._life.start, self._non_persistent,
            self.cluster_metrics, boot_ms=boot_ms, wall_ms=wall_ms,
        )  # fmt: skip
        self._sequence = 0

    # ---------------------------------------------------------------- for the process around it

    def health(self) -> list[str]:
        """A sentence for each trouble; an empty list means healthy."""
        troubles = [] if self.watcher.ready else ["the journal has not been read yet"]
        silent = [broker for broker in self.sessions.brokers if not self.sessions.may_act(broker)]
        if silent:
            troubles.append(f"no valid session of {', '.join(silent[:5])}")
        troubles += [f"{broker} does not answer" for broker in sorted(self.observer.suspects)]
        troubles += [f"{broker} refuses the credentials" for broker in self._fact_reader.denying]
        if self.watcher.failing:
            troubles.append(f"the journal's table cannot be read: {self.watcher.failing}")
        return troubles

    def leave(self) -> None:
        """End `run`; open orders of this agent end with its sessions."""
        self._asked.set()

    async def run(self) -> Ending:
        """Run until told to leave, replaced by another agent, or broken. Raises ConfigError for another cluster."""
        self._life.begin()
        reader = self._life.open_reader([self._connections.names.journal_feed], self.watcher.take)
        try:
            await self._life.run_unless_ended(self.watcher.start(reader))
            if self._life.has_ended:
                return await self._life.ending()
            brokers = None if self._new_brokers else self._poll.members.brokers
            check_cluster(self.watcher.state, self._poll.cluster, brokers)
            self._life.start(self.watcher.run())
            rival = None if self._options.take_over else await self._listen_for_rivals()
            if rival is not None:
                return Ending(LOST, rival)
            if self._asked.is_set():
                return Ending(OK, "left before it observed anything")
            self._list_brokers()
            self._on_begin()
            for task in self._tasks():
                self._life.start(task)
            return await self._life.ending()
        finally:
            self._say_goodbye()
            await self._life.stop()
            await asyncio.to_thread(reader.stop)
            self.watcher.close()

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        return [
            run_periodically(self._options.heartbeat_ms, self.sessions.beat),
            self._poll_forever(),
            self._fact_reader.run(),
            self._read_rings_forever(),
            self._wait_to_leave(),
        ]

    async def _wait_to_leave(self) -> None:
        await self._asked.wait()
        self._life.end(OK, "left")

    async def _listen_for_rivals(self) -> str | None:
        """Who else observes the cluster; None when nobody does, after a lease (and margin) of silence."""
        wait_ms = self._options.lease_ms + (self._margin_ms if self._standby else 0)
        names = self._connections.names
        return await listen_for_rivals(
            ClusterRivals(self._nonce, names.speaks_for),
            lambda take: self._life.open_reader(list(names.all_heartbeats), take),
            wait_ms,
            standby=self._standby,
            asked=self._asked,
            boot_ms=self._boot_ms,
        )

    # ---------------------------------------------------------------- observing

    async def _poll_forever(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            seq = self.watcher.state.seq
            await self._poll.poll(0.9 * self._poll_ms / 1000, lambda p, q=seq: self._on_polled(p, q))  # type: ignore[misc]
            self._list_brokers()
            self.cluster_metrics.note_poll_ended(self._poll.members.brokers, self.observer.suspects)
            self._suspects.tell(self._poll.members.brokers)
            due_s = max(due_s + self._poll_ms / 1000, loop.time())
            await asyncio.sleep(due_s - loop.time())

    def _list_brokers(self) -> None:
        listed = {
            broker: {
                "runtime": "pulsar", "authority": METADATA, "can_fence": False, "lookup_url": address,
                "version": str(self._fact_reader.version_of(broker)), **self._process,
            }
            for broker, address in ((b, self._poll.members.addresses.get(b, "")) for b in self._poll.members.brokers)
        }  # fmt: skip
        for session in self.sessions.list_brokers(listed):
            self.observer.forget(session.broker)
            self._speaker.send(session, "goodbye", reason=UNLISTED)

    def _on_polled(self, polled: Polled, seq: int) -> None:
        self.cluster_metrics.note_polled(polled)
        self._note_listing(polled, seq)
        session = self.sessions.session_of(polled.broker)
        if session is None:
            return
        for namespace in sorted(self.observer.find_unknown_rings(polled.broker, self.watcher.state)):
            self._life.start(self._speaker.tell_ring(namespace))
        changes = self.observer.find_changes(polled.broker, self.watcher.state)
        if changes:
            self._speaker.send(session, "observed", data=changes)
        if polled.reported is not None:
            self._report(session, polled)

    def _note_listing(self, polled: Polled, seq: int) -> None:
        """Take what the broker owns, its silence, or its refusal, which is neither."""
        owned, skip = polled.owned, self._calls.is_elsewhere
        if owned is None and polled.failure is not None:
            if self._fact_reader.note_poll_failed(polled.broker, polled.failure):
                return
            self._suspects.note_failed(polled.broker, polled.failure)
        names = None if owned is None else frozenset(str(b) for b in owned if owned[b] and not skip(b.namespace))
        self.observer.note(Listing(polled.broker, polled.sent, seq, names))
        if names is not None or polled.broker in self.observer.suspects:
            self._fact_reader.forget_refusal(polled.broker)

    def _report(self, session: Session, polled: Polled) -> None:
        assert polled.reported is not None
        report = polled.reported.report
        self.sessions.note_start(session.broker, int(report.get("startTimestamp") or 0))
        self._non_persistent.note_stats(report["lastStats"])
        self._sequence += 1
        recorded = Recorded(polled.at_ms, "", polled.broker, report, polled.cpu, polled.reported.excluded)
        record = to_load_report(recorded, session, self._sequence, self._overrides)
        topic = self._connections.names.of_broker(session.broker).load_reports
        self._connections.bulk.send(topic, record, key=session.broker)
        self.metrics.reports.inc()

    async def _read_rings_forever(self) -> None:
        while True:
            namespaces = sorted(self.watcher.state.observed.rings)
            for namespace in namespaces:
                await asyncio.sleep(RINGS_EVERY_MS / 1000 / len(namespaces))
                await self._speaker.tell_ring(namespace)
            if not namespaces:
                await asyncio.sleep(1)

    # ---------------------------------------------------------------- the journal

    def _on_applied(self, entries: Sequence[Entry]) -> None:
        self._on_changed()

    def _on_changed(self) -> None:
        """Judge the sessions; begin orders that are ours, and drop those that ended."""
        if self.watcher.ready:
            self.sessions.on_applied()
            self._executor.on_applied()

    def _say_goodbye(self) -> None:
        for session in self.sessions.list_brokers({}):
            if session in self.watcher.state.sessions:
                self._speaker.send(session, "goodbye")
