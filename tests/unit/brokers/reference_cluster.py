"""Two reference brokers, one store and a directory in one event loop, over real sockets: no journal, no Kafka.

`Cluster` plays the agents' part: it says hold, release and serve in the order of the hand-over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from controller.brokers.reference.capacity import Capacity
from controller.brokers.reference.client.consumer import Consumer
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.client.producer import Gap, Producer
from controller.brokers.reference.runtime import ReferenceBroker
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.server import StoreServer
from controller.brokers.runtime import Where
from controller.domain.ids import RING_END, Bundle, namespace_of, topic_hash

NS = "shop/orders"
WHOLE = Bundle(NS, 0, RING_END)
LOW, HIGH = WHOLE.split_at(0x80000000)


def topic(number: int) -> str:
    return f"persistent://{NS}/t{number}"


class FakeDirectory:
    """The replicated view, told by the test; answers lookups over HTTP like an agent."""

    def __init__(self) -> None:
        self.owners: dict[Bundle, Where] = {}
        self.partitions: dict[str, int] = {}  # by partitioned topic
        self.seq = 0
        self.lookups = 0
        self.says = ""  # in place of an owner
        self._server: asyncio.Server | None = None

    def put(self, bundle: Bundle, broker: str, address: str) -> Where:
        self.seq += 1
        self.owners = {b: w for b, w in self.owners.items() if not b.overlaps(bundle)}
        self.owners[bundle] = Where(broker, address, self.seq)
        return self.owners[bundle]

    def take(self, bundle: Bundle) -> None:
        """Nobody serves it."""
        del self.owners[bundle]

    def owner_of(self, topic: str) -> Where | None:
        namespace, hash_ = namespace_of(topic), topic_hash(topic)
        return next((w for b, w in self.owners.items() if b.namespace == namespace and b.contains(hash_)), None)

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.lookups += 1
        query = parse_qs(urlsplit(request.split()[1]).query)
        where = self.owner_of(query["topic"][0])
        if where is None or where.seq < int(query.get("at_least", ["0"])[0]):
            status = "503 Service Unavailable\r\nRetry-After: 0.05"
            body = json.dumps({"text": self.says} if self.says else {}).encode()
        else:
            status = "200 OK"
            answer = {"broker": where.broker, "address": where.address, "seq": where.seq}
            if query["topic"][0] in self.partitions:
                answer["partitions"] = self.partitions[query["topic"][0]]
            body = json.dumps(answer).encode()
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


class Cluster:
    """Store, brokers `a` and `b`, directory, and clients that are closed with it."""

    def __init__(self, engine: StoreEngine, store: str, lookup_url: str, directory: FakeDirectory) -> None:
        self.engine = engine
        self.store = store
        self.directory = directory
        self.lookup = Lookup([lookup_url])
        self.links = Links()
        self.brokers: dict[str, ReferenceBroker] = {}
        self.clients: list[Producer | Consumer] = []
        self.gaps: list[Gap] = []
        self.fenced: list[tuple[str, Bundle, int]] = []
        self._epoch = 0

    async def add_broker(
        self,
        name: str,
        capacity: Capacity | None = None,
        hold_ms: int = 10_000,
        may_serve: Callable[[], bool] = lambda: True,
    ) -> ReferenceBroker:
        broker = ReferenceBroker(
            name,
            self.store,
            capacity=capacity,
            hold_ms=hold_ms,
            may_serve=may_serve,
            on_fenced=lambda bundle, epoch: self.fenced.append((name, bundle, epoch)),
        )
        await broker.start(self.directory)
        self.brokers[name] = broker
        return broker

    def next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    async def give(self, bundle: Bundle, to: str) -> int:
        epoch = self.next_epoch()
        self.directory.put(bundle, to, self.brokers[to].data_address)
        await self.brokers[to].serve(bundle, epoch)
        return epoch

    async def transfer(self, bundle: Bundle, by: str, to: str) -> int:
        """accepted (target holds) → releasing → released → serving."""
        await self.brokers[to].hold(bundle)
        where = self.directory.put(bundle, to, self.brokers[to].data_address)
        await self.brokers[by].release(bundle, where)
        epoch = self.next_epoch()
        await self.brokers[to].serve(bundle, epoch)
        return epoch

    async def producer(self, topic: str, name: str, **settings: object) -> Producer:
        producer = Producer(topic, name, self.lookup, self.links, on_gap=self.gaps.append, **settings)  # type: ignore[arg-type]
        self.clients.append(producer)
        await producer.start()
        return producer

    async def consumer(self, topic: str, subscription: str, name: str, **settings: object) -> Consumer:
        consumer = Consumer(topic, subscription, name, self.lookup, self.links, **settings)  # type: ignore[arg-type]
        self.clients.append(consumer)
        await consumer.start()
        return consumer


@asynccontextmanager
async def cluster(folder: Path, *, brokers: int = 2) -> AsyncIterator[Cluster]:
    engine = StoreEngine(folder)
    server = StoreServer(engine)
    directory = FakeDirectory()
    made = Cluster(engine, await server.start(), await directory.start(), directory)
    for name in "abcdef"[:brokers]:
        await made.add_broker(name)
    try:
        yield made
    finally:
        for client in made.clients:
            await client.stop()
        made.links.close()
        await made.lookup.close()
        for broker in made.brokers.values():
            await broker.stop()
        directory.stop()
        await server.stop()
        engine.close()


async def until(condition: object, timeout_s: float = 60.0) -> None:
    """Wait for a condition; the time limit only ends a hang."""
    assert callable(condition)
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition never came true"
        await asyncio.sleep(0.005)
