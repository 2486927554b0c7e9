"""Answers the calls of an order (`orders.py`) with a real Pulsar cluster.

The modular load manager takes an unload with a destination at its leader, which keeps the destination and redirects to
the owner; the extensible one takes it at the owner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from controller.agent.cluster import orders as ask
from controller.agent.cluster.observer import Observer
from controller.agent.cluster.placing import Placing
from controller.brokers.pulsar.addresses import owned_path
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.auth import CredentialsMissing
from controller.brokers.pulsar.changes import PulsarChanges, Sent
from controller.brokers.pulsar.observe import Exclude, parse_owned, parse_ring
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.domain.ids import Bundle, topic_hash

LEADER_PATH = "/admin/v2/brokers/leaderBroker"
OF_ANOTHER_CLUSTER = frozenset({Outcome.PRECONDITION, Outcome.REDIRECTED})  # 412, or redirected to brokers not listed
ELSEWHERE_FOR_S = 300.0


class PulsarCalls:
    """One cluster's answers. `addresses`: broker -> web address, as last looked up."""

    def __init__(
        self,
        admin: PulsarAdmin,
        observer: Observer,
        exclude: Exclude,
        *,
        cluster: Callable[[], str],
        addresses: Callable[[], Mapping[str, str]],
        timeout_s: Callable[[str], float],
        modular: Callable[[], bool],
        on_denied: Callable[[str], None],
    ) -> None:
        """`timeout_s`: how long an order to that broker may take to answer. `on_denied`: 401 or 403 was answered."""
        self._admin, self._changes = admin, PulsarChanges(admin)
        self._observer, self._exclude = observer, exclude
        self._cluster, self._addresses = cluster, addresses
        self._timeout_s, self._modular, self._on_denied = timeout_s, modular, on_denied
        self._placings: dict[str, Placing] = {}  # of bundles that are being unloaded
        self._elsewhere_until_s: dict[str, float] = {}  # namespace of another cluster -> when it is looked at again

    async def answer(self, call: ask.Call) -> Any:
        """The answer that the order's generator is sent."""
        if isinstance(call, ask.Pause):
            return await asyncio.sleep(call.ms / 1000)
        if isinstance(call, ask.ReadRing):
            return await self.read_ring(call.namespace)
        if isinstance(call, ask.ListOwned):
            return await self._list_owned(call.broker)
        if isinstance(call, ask.CountTopics):
            topics = await self._list_topics(call.bundle)
            return None if topics is None else len(topics)
        if isinstance(call, ask.CountNonPersistent):
            return await self.count_non_persistent(call.bundle, call.owner)
        if isinstance(call, ask.LookUp):
            return await self._finish_placing(call.bundle)
        if isinstance(call, ask.FindOwner):
            return self._observer.sole_owner_of(str(call.bundle))
        return await self._change(call)

    async def read_ring(self, namespace: str) -> tuple[int, ...] | None:
        """The namespace's boundaries; () when it does not exist, None when that is not known."""
        answer = await self._admin.get(f"/admin/v2/namespaces/{quote(namespace, safe='/')}/bundles")
        if answer.is_absent:
            return ()
        if answer.outcome in OF_ANOTHER_CLUSTER:
            self._elsewhere_until_s[namespace] = time.monotonic() + ELSEWHERE_FOR_S
            return None
        try:
            ring = parse_ring(answer, namespace)
        except CallFailed:
            return None
        return (*(bundle.lower for bundle in ring), ring[-1].upper)

    def is_elsewhere(self, namespace: str) -> bool:
        """Whether the namespace is another cluster's, as Pulsar said when its ring was read last."""
        until_s = self._elsewhere_until_s.get(namespace)
        return until_s is not None and time.monotonic() < until_s

    async def count_non_persistent(self, bundle: Bundle, owner: str) -> int | None:
        """How many non-persistent topics the bundle holds at its owner; None if that is not known."""
        address = self._addresses().get(owner)
        if address is None:
            return None
        path = f"/admin/v2/non-persistent/{quote(str(bundle), safe='/')}"
        try:
            return len((await self._admin.get(path, address, follow=False)).listing())
        except CallFailed:
            return None

    async def find_leader(self) -> str | None:
        """The broker that leads the cluster's load management."""
        answer = await self._admin.get(LEADER_PATH)
        try:
            leader = answer.mapping().get("brokerId")
        except CallFailed:
            return None
        return leader if isinstance(leader, str) else None

    async def _list_owned(self, broker: str) -> frozenset[str] | None:
        address = self._addresses().get(broker)
        if address is None:
            return None
        answer = await self._admin.get(owned_path(self._cluster(), broker), address, follow=False)
        try:
            owned = parse_owned(answer, self._exclude)
        except CallFailed:
            return None
        return frozenset(str(bundle) for bundle, active in owned.items() if active)

    async def _list_topics(self, bundle: Bundle) -> list[str] | None:
        namespace, _, range_ = str(bundle).rpartition("/")
        answer = await self._admin.get(f"/admin/v2/persistent/{quote(namespace, safe='/')}", params={"bundle": range_})
        try:
            topics = [topic for topic in answer.listing() if isinstance(topic, str)]
        except CallFailed:
            return None
        return [topic for topic in topics if bundle.contains(topic_hash(topic))]

    async def _begin_placing(self, call: ask.Unload, leader: str) -> None:
        """Look the bundle up from now on, so that it is placed the moment that its owner gives it up."""
        addresses, topics = self._addresses(), await self._list_topics(call.bundle)
        target = addresses.get(call.target or "")
        if topics and (call.target is None or target is not None):
            headers = await self._admin.credentials.headers()
            self._placings[str(call.bundle)] = Placing(
                topics, addresses[call.source], target, addresses[leader], self._admin, headers
            )

    async def _finish_placing(self, bundle: Bundle) -> bool:
        placing = self._placings.pop(str(bundle), None)
        return await placing.wait() if placing is not None else False

    async def _change(self, call: ask.Unload | ask.Split) -> ask.Reply:
        addresses = self._addresses()
        owner = addresses.get(call.source)
        if owner is None:
            return ask.Reply(0, reached=False, detail=f"the address of {call.source} is not known")
        path = f"/admin/v2/namespaces/{quote(str(call.bundle), safe='/')}"
        timeout_s = self._timeout_s(call.source)
        if isinstance(call, ask.Split):
            params = {"unload": "false", "splitAlgorithmName": "specified_positions_divide"}
            split = await self._changes.send(
                "PUT", f"{path}/split", owner, params=params, body=[call.boundary], timeout_s=timeout_s
            )
            return self._reply(split, owner)
        params = {} if call.target is None else {"destinationBroker": call.target}
        first = owner
        if self._modular():
            leader = await self.find_leader()
            if leader is None or leader not in addresses:
                return ask.Reply(0, reached=False, detail="the leader is not known")
            first = addresses[leader] if call.target is not None else owner
            try:
                await self._begin_placing(call, leader)
            except CredentialsMissing as error:
                return ask.Reply(0, reached=False, detail=str(error))
        sent: Sent | None = None
        try:
            sent = await self._changes.send("PUT", f"{path}/unload", first, params=params, timeout_s=timeout_s)
        finally:
            self._note_sent(call.bundle, unloaded=sent is not None and 200 <= sent.status < 300)
        return self._reply(sent, owner)

    def _note_sent(self, bundle: Bundle, unloaded: bool) -> None:
        """Bounds the lookups, whatever the order does next."""
        placing = self._placings.get(str(bundle))
        if placing is not None and unloaded:
            placing.note_unloaded()
        elif placing is not None:
            placing.cancel()
            del self._placings[str(bundle)]

    def _reply(self, sent: Sent, owner: str) -> ask.Reply:
        if sent.status in (401, 403):
            self._on_denied(f"HTTP {sent.status}: {sent.detail}")
        reached = owner in sent.hops
        if sent.status >= 400 and not reached:
            reached = True  # a refusal on the way is an answer: the same request would get it again
        return ask.Reply(sent.status, reached, sent.detail, redirected=bool(sent.hops))
