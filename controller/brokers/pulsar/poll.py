"""Polls every broker of a cluster for what it owns and its load. No broker waits for another one.

A broker that has not answered by the end of a poll is not asked again until it has; every poll in between is a gap of
that broker alone. Members are looked up beside the poll. Statistics of topics are read at most once in Pulsar's
statistics period, brokers taking turns, and in between the newest known ones count; a bundle that has moved keeps its
load until its new owner's are read, whatever its former owner still tells.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from controller.brokers.pulsar.addresses import Directory, Members, owned_path
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import (
    Manager,
    RuntimeConfiguration,
    read_cluster_name,
    read_runtime_configuration,
)
from controller.brokers.pulsar.observe import exclude_namespaces, find_overlapping, parse_owned, read_ring
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.process_cpu import MBEANS_PATH, ProcessCpu, ProcessFigures, parse_mbeans
from controller.brokers.pulsar.reports import (
    METRICS_PATH,
    REPORT_PATH,
    Reported,
    add_topics,
    is_extensible,
    parse_load_report,
    parse_metrics,
)
from controller.brokers.pulsar.topic_stats import Stats
from controller.brokers.pulsar.topics import TopicReader
from controller.domain.ids import Bundle
from controller.process.clock import wall_ms

KEPT_PERIODS = 3  # for which statistics of topics count that no broker repeats
FRESH_PERIODS = 2  # for which they are as good as those that its owner would tell now
_LOOK_UP_AGAIN = frozenset({Outcome.UNREACHABLE, Outcome.REDIRECTED, Outcome.NOT_FOUND})


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll learned of a broker: its load, or why there is none.

    `owned`: bundle -> whether it serves now; None if the broker did not say. `cpu`: of its process, unknown in the
    first poll, None if it cannot be read. `topics_failure`: why its statistics of topics are old or missing. `sent`: of
    the request that `owned` answers, as `outcomes.Answer` has it; 0 without one.
    """

    broker: str
    at_ms: int
    took_ms: float = 0.0
    manager: Manager | None = None
    reported: Reported | None = None
    cpu: dict[str, float] | None = None
    failure: CallFailed | None = None
    topics_failure: CallFailed | None = None
    owned: dict[Bundle, bool] | None = None
    sent: int = 0


OnPolled = Callable[[Polled], None]
OnTopicsRead = Callable[[Outcome], None]


class ClusterPoll:
    """Polls of one cluster. `start` first."""

    def __init__(self, admin: PulsarAdmin, topics: TopicReader, wait_for_topics: bool = True) -> None:
        """`topics` is only used after `with_topics` was set. `wait_for_topics`: a broker's poll lasts until its topics
        have been read, where nothing that counts is known of them, not even why; off, its load is unknown until then,
        where nothing else tells it."""
        self.admin, self.with_topics, self._wait_for_topics = admin, False, wait_for_topics
        self.on_topics_read: OnTopicsRead = lambda outcome: None  # of each reading of a broker's topics
        self.configuration, self.cluster = RuntimeConfiguration(), ""
        self.members = Members((), {})
        self.manager: Manager | None = None
        self._topics = topics
        self._exclude = exclude_namespaces(admin.settings.excluded_namespaces)
        self._cpu = ProcessCpu()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._due_s: dict[str, float] = {}
        self._topics_of: dict[str, tuple[float, dict[str, Stats]]] = {}  # broker -> when it last said what
        self._newest: dict[str, tuple[float, Stats]] = {}  # bundle -> when its broker last said what
        self._forget_at_s = 0.0
        self._topics_failed: dict[str, CallFailed] = {}

    async def start(self) -> None:
        """Find out the cluster's name, its brokers and their load manager. Raises CallFailed."""
        try:
            self.configuration = await read_runtime_configuration(self.admin)
        except CallFailed as error:
            if error.outcome not in (Outcome.FORBIDDEN, Outcome.NOT_FOUND, Outcome.BAD_ANSWER):
                raise
        self.cluster = await read_cluster_name(self.admin, self.configuration)
        self._directory = Directory(self.admin, self.cluster)
        self.members = await self._directory.refresh()
        if not self.members.addresses:
            raise next(iter(self.members.failures.values()), CallFailed(Outcome.BAD_ANSWER, "no broker is listed"))
        self.manager = self.configuration.manager or await self._ask_manager()

    async def poll(self, deadline_s: float, on_polled: OnPolled) -> None:
        """Poll every listed broker; `on_polled` is called once for each, as it answers, also after the deadline."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_up())
        started: list[asyncio.Task[None]] = []
        for broker in self.members.brokers:
            address, task = self.members.addresses.get(broker), self._busy.get(broker)
            if task is not None and not task.done():
                waiting = CallFailed(Outcome.TIMED_OUT, broker, "it has not answered the poll before")
                on_polled(Polled(broker, wall_ms(), failure=waiting))
            elif address is None:
                unknown = CallFailed(Outcome.UNREACHABLE, broker, "its address is not known")
                on_polled(Polled(broker, wall_ms(), failure=self.members.failures.get(broker, unknown)))
            else:
                self._busy[broker] = asyncio.create_task(self._poll_broker(broker, address, on_polled))
                started.append(self._busy[broker])
        if started:
            done, _ = await asyncio.wait(started, timeout=deadline_s)
            for task in done:
                task.result()  # a bug in here is raised, not swallowed

    async def stop(self) -> None:
        """End what still runs."""
        tasks = [*self._busy.values(), *self._reading.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self) -> None:
        try:
            self.members = await self._directory.refresh()
        except CallFailed:
            return  # the known members stay; each tells for itself whether it answers
        self._forget_unlisted()
        await self.admin.forget_untrusted()

    def _forget_unlisted(self) -> None:
        """Keep nothing of brokers that have left, but let what they are being asked end."""
        asked = {broker for tasks in (self._busy, self._reading) for broker, task in tasks.items() if not task.done()}
        kept = asked.union(self.members.brokers)
        of_brokers: list[dict[str, Any]] = [
            self._busy, self._reading, self._due_s, self._topics_of, self._topics_failed
        ]  # fmt: skip
        for known in of_brokers:
            for broker in known.keys() - kept:
                del known[broker]
        self._cpu.keep(kept)

    async def _ask_manager(self) -> Manager:
        address = next(iter(self.members.addresses.values()))
        answer = await self.admin.get(REPORT_PATH, address, follow=False)
        return Manager.EXTENSIBLE if is_extensible(answer) else Manager.MODULAR

    async def _poll_broker(self, broker: str, address: str, on_polled: OnPolled) -> None:
        at_ms, began = wall_ms(), time.monotonic()
        owned: dict[Bundle, bool] | None = None
        sent = 0
        try:
            owned, sent = await self._read_owned(broker, address)
            await self._keep_topics_fresh(broker, address, owned)
            process, cpu = await self._read_process(broker, address)
            reported, manager = await self._read_load(broker, address, owned, process, at_ms)
        except CallFailed as error:
            if error.outcome in _LOOK_UP_AGAIN:
                self._directory.forget(broker)
            on_polled(Polled(broker, at_ms, _since_ms(began), failure=error, owned=owned, sent=sent))
        else:
            old = self._topics_failed.get(broker)
            took_ms = _since_ms(began)
            on_polled(
                Polled(broker, at_ms, took_ms, manager, reported, cpu, topics_failure=old, owned=owned, sent=sent)
            )

    async def _read_owned(self, broker: str, address: str) -> tuple[dict[Bundle, bool], int]:
        """What the broker owns, and the number of the request that it answered."""
        answer = await self.admin.get(owned_path(self.cluster, broker), address, follow=False)
        owned = parse_owned(answer, self._exclude)
        for namespace in sorted(find_overlapping(owned)):
            ring = await read_ring(self.admin, namespace)
            if ring is not None:
                owned = {b: active for b, active in owned.items() if b.namespace != namespace or b in ring}
        return owned, answer.sent

    async def _read_process(self, broker: str, address: str) -> tuple[ProcessFigures | None, dict[str, float] | None]:
        answer = await self.admin.get(MBEANS_PATH, address, follow=False)
        try:
            figures = parse_mbeans(answer)
        except CallFailed as error:
            if error.outcome in (Outcome.TIMED_OUT, Outcome.UNREACHABLE, Outcome.UNAUTHENTICATED):
                raise  # so would be the next call
            return None, None
        return figures, self._cpu.usage(broker, figures, time.monotonic())

    async def _read_load(
        self, broker: str, address: str, owned: dict[Bundle, bool], process: ProcessFigures | None, at_ms: int
    ) -> tuple[Reported, Manager]:
        if self.manager is not Manager.EXTENSIBLE:
            answer = await self.admin.get(REPORT_PATH, address, follow=False)
            if not is_extensible(answer):
                reported = parse_load_report(answer, owned, self._exclude)
                add_topics(reported, self._known_topics(reported.report["lastStats"]))
                return reported, Manager.MODULAR
        told = self._told_by(broker)
        if self.with_topics and told is None:  # nothing else tells what its bundles carry
            unread = CallFailed(Outcome.TIMED_OUT, broker, "its topics have not been read yet")
            raise self._topics_failed.get(broker, unread)
        answer = await self.admin.get(METRICS_PATH, address, follow=False)
        topics = {**(told or {}), **self._known_topics(map(str, owned))}  # the newest counts
        return parse_metrics(answer, process, owned, topics, self._exclude, at_ms), Manager.EXTENSIBLE

    async def _keep_topics_fresh(self, broker: str, address: str, owned: Iterable[Bundle]) -> None:
        """Start to read the broker's topics when it is time."""
        if not self.with_topics:
            return
        first = broker not in self._due_s
        if first or (time.monotonic() >= self._due_s[broker] and self._reading[broker].done()):
            period_s = self.configuration.stats_period_s
            self._due_s[broker] = time.monotonic() + period_s * (1 + self._turn(broker) * first)
            self._reading[broker] = asyncio.create_task(self._read_topics(broker, address, owned))
        if self._wait_for_topics and self._told_by(broker) is None and broker not in self._topics_failed:
            await self._reading[broker]

    def _turn(self, broker: str) -> float:
        """When in a period it is the broker's turn, 0..1."""
        brokers = self.members.brokers
        return brokers.index(broker) / len(brokers) if broker in brokers else 0.0

    async def _read_topics(self, broker: str, address: str, owned: Iterable[Bundle]) -> None:
        """Until its next statistics period a broker also tells of bundles that it has just given up, at the rates that
        they had: those count only where nothing else is known."""
        try:
            found = await self._topics.read(address)
        except CallFailed as error:
            self._topics_failed[broker] = error
            self.on_topics_read(error.outcome)
            return
        self._topics_failed.pop(broker, None)
        self.on_topics_read(Outcome.OK)
        now_s = time.monotonic()
        self._topics_of[broker] = now_s, found
        names = set(map(str, owned))
        self._newest |= {n: (now_s, stats) for n, stats in found.items() if n in names or n not in self._newest}
        if now_s >= self._forget_at_s:
            self._newest = {name: known for name, known in self._newest.items() if known[0] >= self._kept_since_s()}
            self._forget_at_s = now_s + self.configuration.stats_period_s

    def _told_by(self, broker: str) -> dict[str, Stats] | None:
        """What the broker itself said last; None if that is nothing, or no longer counts."""
        at_s, told = self._topics_of.get(broker, (0.0, None))
        return told if at_s >= self._kept_since_s() else None

    def _known_topics(self, bundles: Iterable[str]) -> dict[str, Stats]:
        """The statistics that count for these bundles, whoever told them."""
        if not self._newest:
            return {}
        kept_s, newest = self._kept_since_s(), self._newest
        known = [(name, newest[name]) for name in bundles if name in newest]
        return {name: stats for name, (at_s, stats) in known if at_s >= kept_s}

    async def find_stats(self, broker: str, bundle: str) -> Stats | None:
        """The sums of a bundle's topics: as last told, or if that is old, as its owner tells now. None if the owner
        tells of none. Raises CallFailed, within the time in which statistics of topics are given up."""
        at_s, known = self._newest.get(bundle, (0.0, None))
        if known is not None and time.monotonic() - at_s <= FRESH_PERIODS * self.configuration.stats_period_s:
            return known
        address, within_s = self.members.addresses.get(broker), self._topics.give_up_s
        if address is None:
            raise CallFailed(Outcome.UNREACHABLE, broker, "its address is not known")
        try:  # the wait for others that are being read counts as well
            return (await asyncio.wait_for(self._topics.read(address), within_s)).get(bundle)
        except asyncio.TimeoutError:
            raise CallFailed(Outcome.TIMED_OUT, broker, f"its topics were not read within {within_s:g} s") from None

    def _kept_since_s(self) -> float:
        return time.monotonic() - KEPT_PERIODS * self.configuration.stats_period_s


def _since_ms(began_s: float) -> float:
    return round(1000 * (time.monotonic() - began_s), 1)
