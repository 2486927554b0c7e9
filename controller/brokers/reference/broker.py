"""The reference broker: `BrokerRuntime` over the shared segment store.

It keeps no messages of its own; whoever acquires a bundle in the store goes on from its tails. Invariants: a bundle
is served only after the store confirmed its fence, or (a new epoch of one already served, children of a split) with
appends that lie behind the fence on the same connection; what the store calls fenced is dropped and told
(`on_fenced`); after `release` returned nothing of the bundle is in the store's hands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from controller import __version__
from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.capacity import Capacity, Throttle
from controller.brokers.reference.front import ClientFront
from controller.brokers.reference.sampling import load_sample
from controller.brokers.reference.store.client import StoreClient
from controller.brokers.reference.store.protocol import FrameConnection
from controller.brokers.reference.topic import OpenTopic, Services
from controller.brokers.runtime import Directory, LoadSample, Where
from controller.domain.errors import BallastError, Fenced
from controller.domain.ids import Bundle, namespace_of, topic_hash
from controller.process.clock import boot_ms

log = structlog.get_logger()
DEFAULT_HOLD_MS = 10_000
REFUSED_MAX_BUNDLES = "broker_max_bundles"
REFUSED_MAX_TOPICS = "broker_max_topics"


class ReferenceBroker:
    """One reference broker. Use it from one event loop.

    `owner` names the process to the store (broker id, incarnation and nonce): an equal epoch of another owner is
    refused there. `on_fenced(bundle, epoch)` is called after a bundle was dropped because the store fenced it.
    `may_serve` says whether the lease lives at that very moment: it is asked before every append, acknowledgement and
    delivery, as a process that wakes from a pause handles its clients' frames before it drops what it no longer owns.
    """

    kind = "reference"
    can_fence = True
    version = __version__

    def __init__(
        self,
        owner: str,
        store_address: str,
        *,
        capacity: Capacity | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str = "",
        hold_ms: int = DEFAULT_HOLD_MS,
        max_bundles: int = 0,
        max_topics: int = 0,
        on_fenced: Callable[[Bundle, int], None] = lambda bundle, epoch: None,
        may_serve: Callable[[], bool] = lambda: True,
        clock_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._owner = owner
        self._store_address = store_address
        self._capacity = capacity or Capacity()
        self._listen = (host, port, advertised_host)
        self._hold_ms = hold_ms
        self._max_bundles = max_bundles
        self._max_topics = max_topics
        self._on_fenced = on_fenced
        self._may_serve = may_serve
        self._clock_ms = clock_ms
        self._table = BundleTable()
        self._turns: dict[Bundle, asyncio.Lock] = {}  # serve, release and split of one bundle, one at a time
        self._refusing: str | None = None
        self._sampled_ms = 0

    async def start(self, directory: Directory) -> None:
        """Connect to the store and open the port. Raises StoreError when the store does not answer."""
        loop = asyncio.get_running_loop()
        self._store = StoreClient(self._store_address)
        await self._store.start()
        self._throttle = Throttle(self._capacity, loop.time, loop.call_at)
        services = Services(self._store, self._throttle, self._owner, self._clock_ms, self._failed, self._may_serve)
        self._front = ClientFront(self._table, services, hold_ms=self._hold_ms, fenced=self._fenced)
        await self._front.start(directory, *self._listen)
        self._sampled_ms = self._clock_ms()

    async def stop(self) -> None:
        """Drop everything and close."""
        for served in self._table:
            await self.drop(served.bundle)
        await self._front.stop()
        self._throttle.close()
        await self._store.stop()

    @property
    def data_address(self) -> str:
        """`host:port` that clients connect to."""
        return self._front.address

    def refuse_all(self, reason: str | None) -> None:
        """From now on refuse every bundle with this reason code; None ends it."""
        self._refusing = reason

    def refuses(self, bundle: Bundle) -> str | None:
        """A reason code, or None. What is served or held already is never refused."""
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
        """Requests for the bundle wait until `serve` or `drop`."""
        if self._table.get(bundle) is None:
            self._table.put(ServedBundle(bundle, Phase.HELD))
            self._table.wake(bundle)

    async def fence(self, bundle: Bundle, epoch: int) -> None:
        """Shut out every writer below `epoch`. Raises Fenced when a higher epoch holds."""
        await self._store.acquire(bundle, epoch, self._owner, tails=False)

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        """Acquire in the store, then serve; of a bundle already served: adopt a higher epoch.

        Raises Fenced, and StoreError when the store does not answer (repeat it; the bundle is not served then).
        """
        async with self._turn(bundle):
            served = self._table.get(bundle)
            if served is not None and served.phase is Phase.SERVING:
                if epoch > served.epoch or not served.acquired:
                    await self._adopt(served, max(epoch, served.epoch))
                return
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
        # Appends called from here on come behind the acquire on the same connection, so they may carry the new
        # epoch at once; those before it are judged by the old fence.
        served.epoch = epoch
        served.acquired = False
        try:
            await self._store.send_acquire(served.bundle, epoch, self._owner, tails=False)
        except Fenced:
            self._fenced(served)
            raise
        served.acquired = True

    async def release(self, bundle: Bundle, next_owner: Where | None) -> None:
        """Take nothing new, finish what is in the store's hands, send clients on. Returns when quiet."""
        async with self._turn(bundle):
            served = self._table.get(bundle)
            if served is None:
                return
            was_serving = served.phase is Phase.SERVING
            served.phase = Phase.RELEASING
            self._table.wake(bundle)
            if was_serving:
                await asyncio.gather(*(topic.quiet() for topic in served.topics.values()))
            if self._table.get(bundle) is served:
                self._end(served, next_owner)

    async def drop(self, bundle: Bundle) -> None:
        """Stop at once; unacknowledged work is not acknowledged, clients are told to look for the owner."""
        served = self._table.get(bundle)
        if served is not None:
            self._end(served, None)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Serve the children in the parent's place. Raises Fenced when the store refuses one (it is dropped)."""
        async with self._turn(parent):
            served = self._table.get(parent)
            if served is None or served.phase is not Phase.SERVING:
                for child, epoch in children.items():
                    await self.serve(child, epoch)
                return
            # The acquires go out before anything is appended under the children's epochs (see `_adopt`).
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
                self._fenced(child_served)
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
        """Close one topic and let its clients open it again; owner and epoch stay."""
        served = self._table.find(namespace_of(topic), topic_hash(topic))
        found = served.topics.get(topic) if served is not None else None
        if found is None:
            return
        await found.quiet()
        self._reopen_now(found)

    def _reopen_now(self, topic: OpenTopic) -> None:
        if topic.closed:
            return
        topic.served.topics.pop(topic.name, None)
        refs = topic.close()
        self._front.forget(refs)
        for connection, numbers in refs.items():
            connection.send({"op": "reopen", "refs": numbers})

    def serving(self) -> dict[Bundle, int]:
        """What is served now, with epochs. A bundle counts until its release has returned."""
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
            connections=self._front.connections,
            store_latency_ms=self._store.take_mean_latency_ms(),
        )

    def topic_loads(self, bundle: Bundle) -> dict[str, float]:
        """Messages/s in and out of every topic that hashes into the range and is served here, as of the last sample.

        Topics without traffic are there with 0. The range need not be a bundle: half of one will do.
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
        told = {
            "op": "moved",
            "bundle": str(served.bundle),
            "seq": next_owner.seq if next_owner else 0,
            "broker": next_owner.broker if next_owner else "",
            "address": next_owner.address if next_owner else "",
        }
        by_connection: dict[FrameConnection, list[int]] = {}
        for topic in served.topics.values():
            refs = topic.close()
            self._front.forget(refs)
            for connection, numbers in refs.items():
                by_connection.setdefault(connection, []).extend(numbers)
        for connection, numbers in by_connection.items():
            connection.send({**told, "refs": numbers})
        self._table.wake(served.bundle)

    def _failed(self, topic: OpenTopic, error: BallastError) -> None:
        if isinstance(error, Fenced):
            self._fenced(topic.served)
        else:
            log.warning("topic_reopened", topic=topic.name, error=str(error))
            self._reopen_now(topic)

    def _fenced(self, served: ServedBundle) -> None:
        if self._table.get(served.bundle) is not served:
            return
        log.warning("bundle_fenced", bundle=str(served.bundle), epoch=served.epoch)
        self._end(served, None)
        self._on_fenced(served.bundle, served.epoch)
