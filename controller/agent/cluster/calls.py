"""Answers the calls of an order (`orders.py`) with a real Pulsar cluster.

The modular load manager takes an unload with a destination at its leader, which keeps the destination and redirects to
the owner; the extensible one takes it at the owner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from controller.agent.cluster import orders as ask
from controller.agent.cluster.observer import Observer
from controller.agent.cluster.placing import Placing
from controller.brokers.pulsar.addresses import owned_path, read_leader
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.auth import CredentialsMissing
from controller.brokers.pulsar.changes import PulsarChanges, Sent
from controller.brokers.pulsar.observe import Exclude, parse_owned, parse_ring
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.topic_stats import Stats
from controller.domain.ids import Bundle, topic_hash

OF_ANOTHER_CLUSTER = frozenset({Outcome.PRECONDITION, Outcome.REDIRECTED})  # 412, or redirected to brokers not listed
ELSEWHERE_FOR_S = 300.0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What `Prepare` found: the leader's name, the bundle's topics, the credentials. `detail`: what is missing."""

    leader: str | None
    topics: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""


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
        on_denied: Callable[[str], None],
        find_stats: Callable[[str, str], Awaitable[Stats | None]],
    ) -> None:
        """`timeout_s`: how long an order to that broker may take to answer. `on_denied`: 401 or 403 was answered.
        `find_stats`: of a broker's bundle, the sums of its topics, as `ClusterPoll.find_stats`."""
        self._admin, self._changes = admin, PulsarChanges(admin)
        self._observer, self._exclude = observer, exclude
        self._cluster, self._addresses = cluster, addresses
        self._timeout_s, self._on_denied = timeout_s, on_denied
        self._find_stats = find_stats
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
        if isinstance(call, ask.FindBoundary):
            return await self._find_boundary(call)
        if isinstance(call, ask.CountNonPersistent):
            return await self.count_non_persistent(call.bundle, call.owner)
        if isinstance(call, ask.Prepare):
            return await self._prepare(call)
        if isinstance(call, ask.LookUp):
            return await self._finish_placing(call.bundle)
        if isinstance(call, ask.FindOwner):
            return self._observer.sole_owner_of(str(call.bundle), call.after)
        after = self._admin.sent
        return replace(await self._change(call), after=after)

    async def read_ring(self, namespace: str) -> tuple[int, ...] | None:
        """The namespace's boundaries; () when it does not exist, None when that is not known."""
        answer = await self._admin.get(f"/admin/v2/namespaces/{quote(namespace, safe='/')}/bundles")
        if answer.is_absent:
            return ()
        if answer.outcome in OF_ANOTHER_CLUSTER:
            now_s, known = time.monotonic(), self._elsewhere_until_s
            still = {name: until_s for name, until_s in known.items() if now_s < until_s}
            self._elsewhere_until_s = {**still, namespace: now_s + ELSEWHERE_FOR_S}
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
        """The broker that leads the cluster's load management, if it is one with a known address."""
        try:
            return await read_leader(self._admin, self._addresses())
        except CallFailed:
            return None

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

    async def _find_boundary(self, call: ask.FindBoundary) -> ask.Boundary:
        """By the loads of the topics that the owner has loaded, of which there are some on both sides."""
        try:
            stats = await self._find_stats(call.owner, str(call.bundle))
        except CallFailed as error:
            return ask.Boundary(None, f"topics were not read: {error}")
        at = (stats or {}).get("splitBoundary")
        if at is None:
            return ask.Boundary(None, "no boundary parts its topics" if stats else "its owner has none of its topics")
        return ask.Boundary(int(at))

    async def _prepare(self, call: ask.Prepare) -> _Prepared:
        """Whatever takes time and may be done before the last look at who owns the bundle."""
        leader, topics = await asyncio.gather(self.find_leader(), self._list_topics(call.bundle))
        try:
            headers = await self._admin.credentials.headers()
        except CredentialsMissing as error:
            return _Prepared(leader, detail=str(error))
        return _Prepared(leader, topics or [], headers)

    def _begin_placing(self, call: ask.Unload, addresses: Mapping[str, str], leader: str) -> None:
        """Look the bundle up from now on, so that it is placed the moment that its owner gives it up."""
        prepared: _Prepared = call.prepared
        target = addresses.get(call.target or "")
        if prepared.topics and (call.target is None or target is not None):
            self._placings[str(call.bundle)] = Placing(
                prepared.topics, addresses[call.source], target, leader, self._admin, prepared.headers
            )

    async def _finish_placing(self, bundle: Bundle) -> bool:
        placing = self._placings.pop(str(bundle), None)
        return await placing.wait() if placing is not None else False

    async def _change(self, call: ask.Unload | ask.Split) -> ask.Reply:
        """Send it at once: its lease and its owner were looked at just now."""
        addresses = self._addresses()  # one look: a broker may leave at any time
        source = addresses.get(call.source)
        if source is None:
            return ask.Reply(0, reached=False, detail=f"the address of {call.source} is not known")
        if isinstance(call, ask.Split):
            return await self._split(call, source)
        first, leader = source, None
        if isinstance(call.prepared, _Prepared):
            leader = addresses.get(call.prepared.leader or "")
            if call.prepared.detail or (leader is None and call.target is not None):
                return ask.Reply(0, reached=False, detail=call.prepared.detail or "the leader is not known")
        if leader is not None:
            first = leader if call.target is not None else source
            self._begin_placing(call, addresses, leader)
        params = {} if call.target is None else {"destinationBroker": call.target}
        sent: Sent | None = None
        try:
            sent = await self._changes.send(
                "PUT", f"{_path_of(call.bundle)}/unload", first, params=params, timeout_s=self._timeout_s(call.source)
            )
        finally:
            self._note_sent(call.bundle, unloaded=sent is not None and 200 <= sent.status < 300)
        return self._reply(sent)

    async def _split(self, call: ask.Split, source: str) -> ask.Reply:
        params = {"unload": "false", "splitAlgorithmName": "specified_positions_divide"}
        sent = await self._changes.send(
            "PUT", f"{_path_of(call.bundle)}/split", source, params=params, body=[call.boundary],
            timeout_s=self._timeout_s(call.source),
        )  # fmt: skip
        return self._reply(sent)

    def _note_sent(self, bundle: Bundle, unloaded: bool) -> None:
        """Bounds the lookups, whatever the order does next."""
        placing = self._placings.get(str(bundle))
        if placing is not None and unloaded:
            placing.note_unloaded()
        elif placing is not None:
            placing.cancel()
            del self._placings[str(bundle)]

    def _reply(self, sent: Sent) -> ask.Reply:
        if sent.status in (401, 403):
            self._on_denied(f"HTTP {sent.status}: {sent.detail}")
        reached = ask.may_have_reached(sent.status, sent.unanswered)
        return ask.Reply(sent.status, reached, sent.detail, redirected=bool(sent.hops))


def _path_of(bundle: Bundle) -> str:
    return f"/admin/v2/namespaces/{quote(str(bundle), safe='/')}"
