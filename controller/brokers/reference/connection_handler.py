"""The broker's side of client connections: opens producers and consumers, and passes frames between them and topics.

A request for a bundle that is not served here is answered with `not_owner` (`topic_opener`). The requests of one open
producer are handled in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from controller.brokers.reference.bundle import BundleTable, ServedBundle
from controller.brokers.reference.handles import ConsumerHandle, Handle, ProducerHandle
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.fields import (
    number_in,
    optional_number_in,
    ranges_in,
    switch_in,
    text_in,
    topic_in,
)
from controller.brokers.reference.store.protocol import FrameConnection, Header
from controller.brokers.reference.subscription import Subscription
from controller.brokers.reference.topic import OpenTopic, Services
from controller.brokers.reference.topic_opener import TopicOpener
from controller.brokers.reference.wire import SubscriptionType
from controller.brokers.runtime import Directory, Where
from controller.domain.errors import BadRecord, BallastError, Fenced, printable, shown

log = structlog.get_logger()


class ConnectionHandler:
    """Accepts clients for the bundles of one table. One event loop."""

    def __init__(
        self,
        table: BundleTable,
        services: Services,
        *,
        hold_ms: int,
        on_fenced: Callable[[ServedBundle], None],
    ) -> None:
        """`hold_ms`: the longest wait of a request for a bundle that is on its way here. `on_fenced` is called when the
        store refuses a bundle's epoch."""
        self._table = table
        self._services = services
        self._hold_ms = hold_ms
        self._on_fenced = on_fenced
        self._server: asyncio.Server | None = None
        self._handles: dict[FrameConnection, dict[int, Handle]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of their start, in which they are cancelled
        self.address = ""

    async def start(self, directory: Directory, host: str, port: int, advertised: str = "") -> None:
        """Listen. `advertised`: the host name to give to clients, where they cannot reach `host` itself."""
        self._opener = TopicOpener(self._table, self._services, directory, lambda: self.address, hold_ms=self._hold_ms)
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

    def redirect_clients(self, served: ServedBundle, next_owner: Where | None) -> None:
        """Close the topics of a bundle that this broker has stopped serving, and tell their clients where to go."""
        moved = {
            "op": "moved",
            "bundle": str(served.bundle),
            "seq": next_owner.seq if next_owner else 0,
            "broker": next_owner.broker if next_owner else "",
            "address": next_owner.address if next_owner else "",
        }
        by_connection: dict[FrameConnection, list[int]] = {}
        for topic in served.topics.values():
            for connection, numbers in self._close_topic(topic).items():
                by_connection.setdefault(connection, []).extend(numbers)
        for connection, numbers in by_connection.items():
            connection.send({**moved, "refs": numbers})

    def reopen_topic(self, topic: OpenTopic) -> None:
        """Close a topic and have its clients open it again; nothing happens when it is closed already."""
        if topic.closed:
            return
        topic.served.topics.pop(topic.name, None)
        for connection, numbers in self._close_topic(topic).items():
            connection.send({"op": "reopen", "refs": numbers})

    @property
    def connections(self) -> int:
        """The number of open client connections."""
        return len(self._handles)

    def _close_topic(self, topic: OpenTopic) -> dict[FrameConnection, list[int]]:
        """Close the topic and forget its handles; returns their refs by connection."""
        refs = topic.close()
        for connection, numbers in refs.items():
            handles = self._handles.get(connection, {})
            for number in numbers:
                handles.pop(number, None)
        return refs

    def _displace(self, older: Handle) -> None:
        """A newer request has its name. Which request is newer nobody knows where a connection hung, so the client is
        told to open again: one that has gone over to the newer one does not hear it."""
        self._handles.get(older.connection, {}).pop(older.ref, None)
        older.topic.detach(older)
        older.connection.send({"op": "reopen", "refs": [older.ref]})

    def _on_made(self, connection: FrameConnection) -> None:
        self._handles[connection] = {}

    def _on_lost(self, connection: FrameConnection) -> None:
        for handle in self._handles.pop(connection, {}).values():
            if not handle.topic.closed:
                handle.topic.detach(handle)

    def _on_frame(self, connection: FrameConnection, header: Header, body: bytes) -> None:
        op = header.get("op")
        if op in ("producer", "subscribe"):
            task = asyncio.create_task(self._open(connection, header))
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))
            return
        if op == "ping":
            connection.send({"op": "pong"})
            return
        ref = number_in(header, "ref")
        handle = self._handles[connection].get(ref)
        if handle is None:
            return  # closed meanwhile, and the client has been told
        if op == "send" and isinstance(handle, ProducerHandle):
            handle.topic.send(handle, number_in(header, "first"), body, _count_in(header, body))
        elif op == "flow" and isinstance(handle, ConsumerHandle):
            handle.permits += number_in(header, "permits")
            handle.subscription.pump()
        elif op == "ack" and isinstance(handle, ConsumerHandle):
            self._ack(handle, header)
        elif op == "close":
            self._handles[connection].pop(ref)
            handle.topic.detach(handle)
        else:
            raise BadRecord("client_op", f"{shown(op)} is no request for ref {ref}")

    def _ack(self, handle: ConsumerHandle, header: Header) -> None:
        below = optional_number_in(header, "below")
        if below is not None and handle.subscription.kind is SubscriptionType.SHARED:
            raise BadRecord("ack_below", "a shared subscription has no cumulative acknowledgement")
        handle.topic.acknowledge(handle, number_in(header, "id"), ranges_in(header, "ranges"), below)

    async def _open(self, connection: FrameConnection, header: Header) -> None:
        ref = header.get("ref")
        try:
            answer = await self._open_handle(connection, header)
        except Fenced:
            answer = self._opener.redirect(topic_in(header))
        except (ValueError, BadRecord) as error:
            reason = error.text if isinstance(error, BadRecord) else printable(str(error)[:200])
            answer = {"op": "refused", "reason": f"bad request: {reason}", "retry": False}
        except BallastError as error:
            answer = {"op": "refused", "reason": str(error), "retry": True}
        except Exception as error:  # without an answer the client would wait forever
            log.exception("open_failed", topic=header.get("topic"))
            answer = {"op": "refused", "reason": f"{type(error).__name__}: {error}", "retry": True}
        if answer is not None:
            connection.send({"ref": ref, **answer})

    async def _open_handle(self, connection: FrameConnection, header: Header) -> Header | None:
        name, topic_name, ref = text_in(header, "name"), topic_in(header), number_in(header, "ref")
        served = await self._opener.wait_for_bundle(topic_name, number_in(header, "seq", 0))
        if served is None:
            return self._opener.redirect(topic_name)
        topic = await self._opener.open(served, topic_name)
        if header["op"] == "producer":
            return await self._open_producer(connection, ref, name, topic)
        return await self._open_consumer(connection, header, name, topic)

    async def _open_producer(self, connection: FrameConnection, ref: int, name: str, topic: OpenTopic) -> Header | None:
        if connection not in self._handles:
            return None  # the client left while it waited, and may have come back by another connection
        older = topic.producers.get(name)
        if older is not None:  # the same producer on a newer connection: the newest wins
            self._displace(older)
        unstored = topic.unstored(name)
        if unstored:  # also of connections that are gone: the new one goes on behind what was stored
            await asyncio.wait(list(unstored))
        if not topic.serves:
            return self._opener.redirect(topic.name)
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
        ref, subscription = number_in(header, "ref"), text_in(header, "subscription")
        kind, permits = SubscriptionType(text_in(header, "type")), number_in(header, "permits")
        latest, unconfirmed = switch_in(header, "latest", False), ranges_in(header, "unconfirmed")
        cursor = topic.cursors.get(subscription)
        if cursor is None:
            cursor = await self._subscribe(topic, subscription, latest=latest)
        handles = self._handles.get(connection)
        if handles is None:
            return None
        if not topic.serves:
            return self._opener.redirect(topic.name)
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

    async def _subscribe(self, topic: OpenTopic, subscription: str, *, latest: bool) -> Cursor:
        """The cursor of a subscription that the topic does not know yet. Raises Fenced."""
        owner = self._services.owner
        while True:
            served, epoch = topic.served, topic.served.epoch
            try:
                state = await self._services.store.subscribe(topic.name, subscription, epoch, owner, latest=latest)
            except Fenced:
                if epoch < topic.served.epoch:
                    continue  # it was sent again behind an acquire of this broker (see the store's client)
                self._on_fenced(served)
                raise
            return topic.cursors.setdefault(subscription, Cursor(state["mark"], state["ranges"], state["start"]))

    def _refusal(
        self, found: Subscription, kind: SubscriptionType, name: str, connection: FrameConnection
    ) -> str | None:
        """Why a consumer may not join, or None; an older consumer of the same name is detached."""
        for older in [c for c in found.consumers if c.name == name]:
            self._displace(older)
        if found.consumers and found.kind is not kind:
            return f"subscription {found.name} is {found.kind.value}, not {kind.value}"
        if kind is SubscriptionType.EXCLUSIVE and found.consumers:
            return f"subscription {found.name} is exclusive and {found.consumers[0].name} consumes it"
        found.kind = kind
        return None


def _count_in(header: Header, body: bytes) -> int:
    """How many messages a `send` says to hold; it takes that much of the broker's capacity before they are unpacked."""
    count = number_in(header, "n")
    if not 0 < count <= len(body):
        raise BadRecord("send_count", f"{count} messages in {len(body)} bytes")
    return count
