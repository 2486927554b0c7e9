"""Finds the bundle that serves a topic and opens the topic in it; where it is not served here, says who to ask.

A request for a bundle that is being handed over to this broker waits until it is served, for a bounded time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.topic import OpenTopic, Services
from controller.brokers.runtime import Directory
from controller.domain.errors import Fenced
from controller.domain.ids import namespace_of, topic_hash

LIMBO_MS = 2_000  # the journal names this broker but its agent has not called `serve` yet, or we lag behind the client


class TopicOpener:
    """Opens topics of the bundles in one table. One event loop."""

    def __init__(
        self, table: BundleTable, services: Services, directory: Directory, address: Callable[[], str], *, hold_ms: int
    ) -> None:
        """`address`: where clients connect to this broker; `hold_ms`: the longest wait for a bundle."""
        self._table = table
        self._services = services
        self._directory = directory
        self._address = address
        self._hold_ms = hold_ms
        self._opening: dict[str, asyncio.Future[OpenTopic]] = {}

    async def wait_for_bundle(self, topic: str, known_seq: int) -> ServedBundle | None:
        """The topic's bundle once it is served here; None when that does not happen in time.

        `known_seq`: the newest journal seq that the client knows of.
        """
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
            if left <= 0 or not await self._table.wait_for_change(namespace, hash_, left / 1000.0):
                return None

    async def open(self, served: ServedBundle, name: str) -> OpenTopic:
        """The open topic, opened now if need be; concurrent calls for one topic share the work. Raises Fenced."""
        found = served.topics.get(name)
        if found is not None:
            return found
        opening = self._opening.get(name)
        if opening is None:
            opening = self._opening[name] = asyncio.ensure_future(self._open(served, name))
            opening.add_done_callback(lambda done: self._opening.pop(name, None))
        return await asyncio.shield(opening)

    def redirect(self, topic: str) -> dict[str, Any]:
        """The frame `not_owner`, with the owner that the directory names."""
        where = self._directory.owner_of(topic)
        if where is None:
            return {"op": "not_owner", "seq": 0, "broker": "", "address": ""}
        elsewhere = where.address != self._address()
        return {
            "op": "not_owner",
            "seq": where.seq,
            "broker": where.broker,
            "address": where.address if elsewhere else "",
        }

    async def _open(self, served: ServedBundle, name: str) -> OpenTopic:
        """Open it in whichever bundle serves it by then: `served` may have been split or moved while the store was
        asked, and a topic opened in a remainder of that would never be closed, nor get new messages."""
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

    def _limbo_ms(self, topic: str, known_seq: int) -> int:
        where = self._directory.owner_of(topic)
        here = where is not None and where.address == self._address()
        behind = where is None or where.seq < known_seq
        return min(LIMBO_MS, self._hold_ms) if here or (behind and known_seq > 0) else 0
