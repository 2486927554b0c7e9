"""The reference broker: `BrokerRuntime` over the shared segment store.

It keeps no messages of its own; the broker that acquires a bundle in the store continues from its tails. Invariants: a
bundle is served only after the store has confirmed its fence, or, for a new epoch of a served bundle and for children
of a split, with appends that follow the acquire on the same connection; a bundle that the store fences is dropped and
reported with `on_fenced`; once `release` has returned, no operation of the bundle is pending in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from controller import __version__
from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.capacity import Capacity, Throttle
from controller.brokers.reference.connection_handler import ConnectionHandler
from controller.brokers.reference.sampling import load_sample
from controller.brokers.reference.store.client import StoreClient
from controller.brokers.reference.topic import OpenTopic, Services
from controller.brokers.runtime import Directory, LoadSample, Where
from controller.domain.errors import BallastError, Fenced
from controller.domain.ids import Bundle, namespace_of, topic_hash
from controller.domain.state import JOURNAL
from controller.process.clock import boot_ms

log = structlog.get_logger()
DEFAULT_HOLD_MS = 10_000
REFUSED_MAX_BUNDLES = "broker_max_bundles"
REFUSED_MAX_TOPICS = "broker_max_topics"


class ReferenceBroker:
    """One reference broker. Use it from one event loop.

    `owner` identifies the process to the store (broker id, incarnation and nonce), which refuses an equal epoch of
    another owner. `on_fenced(bundle, epoch)` is called after a bundle was dropped because the store fenced it.
    `may_serve` tells whether the lease is valid at that very moment. It is called before every append, acknowledgement
    and delivery: a process that wakes from a pause handles its clients' frames before it drops its lost bundles.
    """

    kind = "reference"
    authority = JOURNAL
    can_fence = True
    version = __version__

    def __init__(
        self,
        owner: str,
        store_address: str,
        *,
        may_serve: Callable[[], bool],
        capacity: Capacity | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "",
        hold_ms: int = DEFAULT_HOLD_MS,
        max_bundles: int = 0,
        max_topics: int = 0,
        on_fenced: Callable[[Bundle, int], None] = lambda bundle, epoch: None,
        clock_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._owner = owner
        self._store = StoreClient(store_address)
        self._capacity = capacity or Capacity()
        self._listen = (host, port, advertised_host)
        self._hold_ms = hold_ms
        self._max_bundles = max_bundles
        self._max_topics = max_topics
        self._on_fenced = on_fenced
        self._may_serve = may_serve
        self._clock_ms = clock_ms
        self._table = BundleTable()
        self._turns: dict[Bundle, asyncio.Lock] = {}  # serializes serve, release and split of a bundle
        self._refusing: str | None = None
        self._sampled_ms = 0

    async def start(self, directory: Directory) -> None:
        """Connect to the store and open the port for clients. Raises StoreError when the store does not answer."""
        loop = asyncio.get_running_loop()
        self._throttle = Throttle(self._capacity, loop.time, loop.call_at)
        services = Services(
            self._store, self._throttle, self._owner, self._clock_ms, self._on_topic_failed, self._may_serve
        )
        self._clients = ConnectionHandler(self._table, services, hold_ms=self._hold_ms, on_fenced=self._on_store_fenced)
        await self._store.start()
        await self._clients.start(directory, *self._listen)
        self._sampled_ms = self._clock_ms()

    async def stop(self) -> None:
        """Drop everything and close."""
        for served in self._table:
            await self.drop(served.bundle)
        await self._clients.stop()
        self._throttle.close()
        await self._store.stop()

    @property
    def data_address(self) -> str:
        """`host:port` that clients connect to."""
        return self._clients.address

    def troubles(self) -> list[str]:
        """That the store does not answer, without which no message is taken or delivered."""
        return [self._store.trouble] if self._store.trouble else []

    def refuse_all(self, reason: str | None) -> None:
        """Refuse every bundle with this reason code from now on; None accepts bundles again."""
        self._refusing = reason

    def refuses(self, bundle: Bundle) -> str | None:
        """A reason code, or None. Bundles that are served or held already are never refused."""
        if self._table.get(bundle) is not None:
            return None
        served = list(self._table)
        if self._refusing is not None:
            return self._refusing
        if 0 < self._max_bundles <= len(served):
            return REFUSED_MAX_BUNDLES
        if 0 < self._max_topics <= sum(len(s.topics) + len(s.tails) for s in served):
            return REFUSED_MAX_TOPICS
        return None

    async def hold(self, bundle: Bundle) -> None:
        """Hold requests for the bundle until `serve` or `drop`."""
        if self._table.get(bundle) is None:
            self._table.put(ServedBundle(bundle, Phase.HELD))
            self._table.wake(bundle)

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """Fence off every writer below `epoch`. Raises Fenced when a higher epoch is in force."""
        await self._store.acquire(bundle, epoch, self._owner, tails=False)

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """Acquire the bundle in the store, then serve it; a bundle already served adopts a higher epoch.

        Raises Fenced; StoreError when the store does not answer, and then the bundle is not served: call it again.
        """
        async with self._turn(bundle):
            served = self._table.get(bundle)
            if served is not None and served.phase is Phase.SERVING:
                if epoch > served.epoch or not served.acquired:
                    await self._adopt(served, max(epoch, served.epoch))
                return
            if served is not None and served.topics:  # of a release that was cancelled: their clients wait for nothing
                self._end(served, None)
            await self._take(bundle, epoch)

    async def _take(self, bundle: Bundle, epoch: int) -> None:
        served = ServedBundle(bundle, Phase.ACQUIRING, epoch)
        self._table.put(served)
        try:
            tails = await self._store.acquire(bundle, epoch, self._owner)
        except BallastError:
            if self._table.get(bundle) is served:
                self._table.remove(bundle)
                self._table.wake(bundle)
            raise
        if self._table.get(bundle) is not served:
            return  # dropped while the store was asked
        for other in self._table.overlapping(bundle):
            if other.phase is not Phase.HELD:
                log.warning("overlapping_bundle_dropped", bundle=str(other.bundle), by=str(bundle))
            await self.drop(other.bundle)
        served.tails = tails
        served.acquired = True
        served.phase = Phase.SERVING
        self._table.wake(bundle)

    async def _adopt(self, served: ServedBundle, epoch: int) -> None:
        # Appends called from here on follow the acquire on the same connection, so they may carry the new epoch at
        # once; earlier ones are checked against the old fence.
        served.epoch = epoch
        served.acquired = False
        try:
            await self._store.send_acquire(served.bundle, epoch, self._owner, tails=False)
        except Fenced:
            self._on_store_fenced(served)
            raise
        served.acquired = True

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """Accept no new work, finish what is pending in the store, redirect clients. Returns once that is done."""
        async with self._turn(bundle):
            served = self._table.get(bundle)
            if served is None:
                return
            was_serving = served.phase is Phase.SERVING
            served.phase = Phase.RELEASING
            self._table.wake(bundle)
            if was_serving:
                await asyncio.gather(*(topic.quiesce() for topic in served.topics.values()))
            if self._table.get(bundle) is served:
                self._end(served, next_owner)

    async def drop(self, bundle: Bundle) -> None:
        """Stop at once; pending work is not acknowledged, and clients are told to look up the owner."""
        served = self._table.get(bundle)
        if served is not None:
            self._end(served, None)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Serve the children in place of the parent. Raises Fenced when the store refuses one, which is dropped."""
        async with self._turn(parent):
            served = self._table.get(parent)
            if served is None or served.phase is not Phase.SERVING:
                for child, epoch in children.items():
                    await self.serve(child, epoch)
                return
            # The acquires are sent before any append under the children's epochs (see `_adopt`).
            acquires = [
                (child, epoch, self._store.send_acquire(child, epoch, self._owner, tails=False))
                for child, epoch in children.items()
            ]
            self._table.remove(parent)
            born = [self._inherit(served, child, epoch) for child, epoch, _ in acquires]
            self._table.wake(parent)
            answers = await asyncio.gather(*(future for _, _, future in acquires), return_exceptions=True)
        for child_served, answer in zip(born, answers, strict=True):
            child_served.acquired = not isinstance(answer, BaseException)
            if isinstance(answer, Fenced):
                self._on_store_fenced(child_served)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    def _inherit(self, parent: ServedBundle, child: Bundle, epoch: int) -> ServedBundle:
        served = ServedBundle(child, Phase.SERVING, epoch)
        served.topics = {n: t for n, t in parent.topics.items() if child.contains(topic_hash(n))}
        served.tails = {n: t for n, t in parent.tails.items() if child.contains(topic_hash(n))}
        served.topic_rates = {n: r for n, r in parent.topic_rates.items() if child.contains(topic_hash(n))}
        for topic in served.topics.values():
            topic.served = served
        self._table.put(served)
        return served

    async def reopen(self, topic: str) -> None:
        """Close one topic and have its clients open it again; owner and epoch stay the same."""
        served = self._table.find(namespace_of(topic), topic_hash(topic))
        found = served.topics.get(topic) if served is not None else None
        if found is None:
            return
        await found.quiesce()
        self._clients.reopen_topic(found)

    def serving(self) -> dict[Bundle, int]:
        """The bundles served now, with epochs. A bundle counts until its release has returned."""
        return {s.bundle: s.epoch for s in self._table if s.phase in (Phase.SERVING, Phase.RELEASING)}

    def sample(self) -> LoadSample:
        """Load since the previous call."""
        now = self._clock_ms()
        span_s = max(now - self._sampled_ms, 1) / 1000.0
        self._sampled_ms = now
        return load_sample(
            [s for s in self._table if s.phase is Phase.SERVING],
            self._throttle.sample(),
            self._capacity,
            span_s=span_s,
            connections=self._clients.connections,
            store_latency_ms=self._store.take_mean_latency_ms(),
        )

    def topic_loads(self, bundle: Bundle) -> dict[str, float]:
        """Messages/s, in plus out, of every topic in the range that is served here, as of the last sample.

        Topics without traffic have 0. The range need not be a whole bundle.
        """
        return {
            name: rate
            for served in self._table
            if served.bundle.overlaps(bundle)
            for name, rate in served.topic_rates.items()
            if bundle.contains(topic_hash(name))
        }

    def _turn(self, bundle: Bundle) -> asyncio.Lock:
        return self._turns.setdefault(bundle, asyncio.Lock())

    def _end(self, served: ServedBundle, next_owner: Where | None) -> None:
        self._table.remove(served.bundle)
        self._clients.redirect_clients(served, next_owner)
        self._table.wake(served.bundle)

    def _on_topic_failed(self, topic: OpenTopic, error: BallastError, epoch: int) -> None:
        # What was asked at an epoch before and sent again behind an acquire of this broker is refused, whether it was
        # carried out the first time or not. Who opens the topic again learns that from its tail.
        if isinstance(error, Fenced) and epoch >= topic.served.epoch:
            self._on_store_fenced(topic.served)
        else:
            log.warning("topic_reopened", topic=topic.name, error=str(error))
            self._clients.reopen_topic(topic)

    def _on_store_fenced(self, served: ServedBundle) -> None:
        if self._table.get(served.bundle) is not served:
            return
        log.warning("bundle_fenced", bundle=str(served.bundle), epoch=served.epoch)
        self._end(served, None)
        self._on_fenced(served.bundle, served.epoch)
