"""The broker's side of client connections: opening producers and consumers, and passing their frames on.

A request for a bundle that is on its way here waits (`hold`), bounded; any other that is not served gets
`not_owner` with the owner that the directory names and its journal seq. Requests of one open producer are handled
in the order they arrive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.handles import ConsumerHandle, Handle, ProducerHandle
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.protocol import FrameConnection, Header
from controller.brokers.reference.subscription import Subscription
from controller.brokers.reference.topic import OpenTopic, Services
from controller.brokers.reference.wire import SubscriptionType
from controller.brokers.runtime import Directory, Where
from controller.domain.errors import BadRecord, BallastError, Fenced
from controller.domain.ids import namespace_of, topic_hash

log = structlog.get_logger()
LIMBO_MS = 2_000  # the journal names this broker but the agent has not said `serve` yet, or we lag behind the client


class ClientFront:
    """Accepts clients for the bundles of one table."""

    def __init__(
        self,
        table: BundleTable,
        services: Services,
        *,
        hold_ms: int,
        fenced: Callable[[ServedBundle], None],
    ) -> None:
        self._table = table
        self._services = services
        self._hold_ms = hold_ms
        self._fenced = fenced
        self._directory: Directory | None = None
        self._server: asyncio.Server | None = None
        self._handles: dict[FrameConnection, dict[int, Handle]] = {}
        self._opening: dict[str, asyncio.Future[OpenTopic]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def start(self, directory: Directory, host: str, port: int, advertised: str = "") -> None:
        """Listen; `advertised` is the name that clients are told, where they cannot reach `host` itself."""
        self._directory = directory
        self._server = await asyncio.get_running_loop().create_server(
            lambda: FrameConnection(self._on_frame, self._on_lost, self._on_made), host, port
        )
        self.address = f"{advertised or host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._handles):
            connection.close()
        await asyncio.sleep(0)

    def forget(self, refs: dict[FrameConnection, list[int]]) -> None:
        """A topic was closed: its refs mean nothing any more."""
        for connection, numbers in refs.items():
            handles = self._handles.get(connection, {})
            for number in numbers:
                handles.pop(number, None)

    @property
    def connections(self) -> int:
        """Open client connections."""
        return len(self._handles)

    def _on_made(self, connection: FrameConnection) -> None:
        self._handles[connection] = {}

    def _on_lost(self, connection: FrameConnection) -> None:
        for handle in self._handles.pop(connection, {}).values():
            if not handle.topic.closed:
                handle.topic.detach(handle)

    def _on_frame(self, connection: FrameConnection, header: Header, body: bytes) -> None:
        op = header["op"]
        if op in ("producer", "subscribe"):
            task = asyncio.create_task(self._open(connection, header))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if op == "ping":
            connection.send({"op": "pong"})
            return
        handle = self._handles[connection].get(header["ref"])
        if handle is None:
            return  # closed meanwhile; the client was told
        if op == "send" and isinstance(handle, ProducerHandle):
            handle.topic.send(handle, int(header["first"]), body, int(header["n"]))
        elif op == "flow" and isinstance(handle, ConsumerHandle):
            handle.permits += int(header["permits"])
            handle.subscription.pump()
        elif op == "ack" and isinstance(handle, ConsumerHandle):
            self._ack(handle, header)
        elif op == "close":
            self._handles[connection].pop(header["ref"])
            handle.topic.detach(handle)
        else:
            raise BadRecord("client_op", f"{op!r} is no request for ref {header['ref']}")

    def _ack(self, handle: ConsumerHandle, header: Header) -> None:
        below = header.get("below")
        ranges = [(int(low), int(high)) for low, high in header.get("ranges", [])]
        if any(low < 0 or low >= high for low, high in ranges):
            raise BadRecord("ack_range", f"{ranges} holds an empty or negative range")
        if below is not None and handle.subscription.kind is SubscriptionType.SHARED:
            raise BadRecord("ack_below", "a shared subscription has no cumulative acknowledgement")
        handle.topic.acknowledge(handle, header["id"], ranges, below)

    async def _open(self, connection: FrameConnection, header: Header) -> None:
        ref = header.get("ref")
        try:
            answer = await self._opened(connection, header)
        except Fenced:
            answer = self._not_owner(str(header["topic"]))
        except (KeyError, TypeError, ValueError, BadRecord) as error:
            answer = {"op": "refused", "reason": f"bad request: {error}", "retry": False}
        except BallastError as error:
            answer = {"op": "refused", "reason": str(error), "retry": True}
        except Exception as error:  # without an answer the client would wait for ever
            log.exception("open_failed", topic=header.get("topic"))
            answer = {"op": "refused", "reason": f"{type(error).__name__}: {error}", "retry": True}
        if answer is not None:
            connection.send({"ref": ref, **answer})

    async def _opened(self, connection: FrameConnection, header: Header) -> Header | None:
        name, topic_name = str(header["name"]), str(header["topic"])
        served = await self._served(topic_name, int(header.get("seq", 0)))
        if served is None:
            return self._not_owner(topic_name)
        topic = await self._topic(served, topic_name)
        if header["op"] == "producer":
            return await self._open_producer(connection, int(header["ref"]), name, topic)
        return await self._open_consumer(connection, header, name, topic)

    async def _open_producer(self, connection: FrameConnection, ref: int, name: str, topic: OpenTopic) -> Header | None:
        older = topic.producers.get(name)
        if older is not None:  # the same producer on a newer connection: the newest wins
            topic.detach(older)
            if older.in_flight:
                await asyncio.wait(list(older.in_flight))
        if not topic.serves:
            return self._not_owner(topic.name)
        handles = self._handles.get(connection)
        if handles is None:
            return None  # the client left while it waited
        newer = topic.producers.get(name)
        if newer is not None:
            return {"op": "refused", "reason": f"producer {name} was opened twice at once", "retry": True}
        handles[ref] = topic.producers[name] = ProducerHandle(connection, ref, name, topic)
        return {"op": "opened", "last": topic.last_sequences.get(name, -1)}

    async def _open_consumer(
        self, connection: FrameConnection, header: Header, name: str, topic: OpenTopic
    ) -> Header | None:
        ref, subscription, kind = int(header["ref"]), str(header["subscription"]), SubscriptionType(header["type"])
        permits = int(header["permits"])
        unconfirmed = [(int(low), int(high)) for low, high in header.get("unconfirmed", [])]
        cursor = topic.cursors.get(subscription)
        if cursor is None:
            served = topic.served
            try:
                state = await self._services.store.subscribe(
                    topic.name,
                    subscription,
                    served.epoch,
                    self._services.owner,
                    latest=bool(header.get("latest", False)),
                )
            except Fenced:
                self._fenced(served)
                raise
            cursor = topic.cursors.setdefault(subscription, Cursor(state["mark"], state["ranges"], state["start"]))
        handles = self._handles.get(connection)
        if handles is None:
            return None
        if not topic.serves:
            return self._not_owner(topic.name)
        found = topic.subscription(subscription, kind, cursor)
        reason = self._refusal(found, kind, name, connection)
        if reason is not None:
            return {"op": "refused", "reason": reason, "retry": True}
        consumer = ConsumerHandle(connection, ref, name, topic, found)
        handles[ref] = consumer
        connection.send({"op": "opened", "ref": ref, "mark": found.cursor.mark})
        found.attach(consumer)
        if unconfirmed:
            topic.acknowledge(consumer, 0, unconfirmed, None)
        consumer.permits = permits
        found.pump()
        return None

    def _refusal(
        self, found: Subscription, kind: SubscriptionType, name: str, connection: FrameConnection
    ) -> str | None:
        """Why a consumer may not join; an older consumer of the same name gives way."""
        for older in [c for c in found.consumers if c.name == name]:
            self._handles.get(older.connection, {}).pop(older.ref, None)
            found.topic.detach(older)
        if found.consumers and found.kind is not kind:
            return f"subscription {found.name} is {found.kind.value}, not {kind.value}"
        if kind is SubscriptionType.EXCLUSIVE and found.consumers:
            return f"subscription {found.name} is exclusive and {found.consumers[0].name} consumes it"
        found.kind = kind
        return None

    async def _served(self, topic: str, known_seq: int) -> ServedBundle | None:
        """The bundle of the topic once it is served here, or None when that does not come about in time."""
        namespace, hash_ = namespace_of(topic), topic_hash(topic)
        started = self._services.boot_ms()
        while True:
            served = self._table.find(namespace, hash_)
            if served is not None and served.phase is Phase.SERVING and self._services.may_serve():
                return served
            if served is not None and served.phase is Phase.RELEASING:
                return None
            patience = self._hold_ms if served is not None else self._limbo_ms(topic, known_seq)
            left = patience - (self._services.boot_ms() - started)
            if left <= 0 or not await self._table.changed(namespace, hash_, left / 1000.0):
                return None

    def _limbo_ms(self, topic: str, known_seq: int) -> int:
        where = self._where(topic)
        here = where is not None and where.address == self.address
        behind = where is None or where.seq < known_seq
        return min(LIMBO_MS, self._hold_ms) if here or (behind and known_seq > 0) else 0

    async def _topic(self, served: ServedBundle, name: str) -> OpenTopic:
        found = served.topics.get(name)
        if found is not None:
            return found
        opening = self._opening.get(name)
        if opening is None:
            opening = self._opening[name] = asyncio.ensure_future(self._open_topic(served, name))
            opening.add_done_callback(lambda done: self._opening.pop(name, None))
        return await asyncio.shield(opening)

    async def _open_topic(self, served: ServedBundle, name: str) -> OpenTopic:
        """Open it in the bundle that is served when it opens: `served` may have been split or sent on meanwhile, and
        a topic opened in what is left of that would never be closed, nor hear of new messages."""
        tail = None
        while True:
            now = self._table.find(namespace_of(name), topic_hash(name))
            if now is None or now.phase is not Phase.SERVING:
                raise Fenced(f"{name} went away while it was opened")
            if now is not served:  # another epoch or a split came in between: a tail read before it may be old
                served, tail = now, None
            tail = tail or served.tails.pop(name, None)
            if tail is not None:
                break
            tail = await self._services.store.create_topic(name)
        topic = OpenTopic(name, served, self._services, tail)
        served.topics[name] = topic
        return topic

    def _where(self, topic: str) -> Where | None:
        return self._directory.owner_of(topic) if self._directory is not None else None

    def _not_owner(self, topic: str) -> dict[str, Any]:
        where = self._where(topic)
        if where is None:
            return {"op": "not_owner", "seq": 0, "broker": "", "address": ""}
        elsewhere = where.address != self.address
        return {
            "op": "not_owner",
            "seq": where.seq,
            "broker": where.broker,
            "address": where.address if elsewhere else "",
        }
