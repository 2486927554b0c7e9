"""Topic -> bundle -> owner in the agent's replicated view. No caches: two dict lookups and one bisection.

`find` is pure; `AgentDirectory` binds it to the state the agent follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.brokers.runtime import Where
from controller.domain.errors import BallastError, label
from controller.domain.ids import Bundle, Session, namespace_of, topic_hash
from controller.domain.ring import locate
from controller.domain.state import ClusterState


class UnknownNamespace(BallastError):
    """Raised when a topic's namespace does not exist, as far as this agent has read the journal."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a topic is served, according to the journal up to `seq`.

    `broker` and the addresses are empty without an owner, and for an owner that a newer process of its broker replaced.
    `partitions`: of a partitioned topic, whose messages are in the topics of its partitions; 0 otherwise.
    """

    bundle: Bundle
    epoch: int
    seq: int
    broker: str = ""
    address: str = ""
    lookup_url: str = ""
    partitions: int = 0

    def to_json(self) -> dict[str, str | int]:
        """The body of a lookup's answer; `partitions` is in that of a partitioned topic alone."""
        body: dict[str, str | int] = {
            "broker": self.broker,
            "address": self.address,
            "lookup_url": self.lookup_url,
            "bundle": str(self.bundle),
            "epoch": self.epoch,
            "seq": self.seq,
        }
        return {**body, "partitions": self.partitions} if self.partitions else body


def find(state: ClusterState, topic: str) -> Found:
    """The bundle and owner of a topic. Raises BadRecord for a malformed topic name, and UnknownNamespace."""
    namespace = namespace_of(topic)
    bundles = state.namespaces.get(namespace)
    if not bundles:
        raise UnknownNamespace(
            f"namespace {label(namespace)} does not exist (journal seq {state.seq}); create it first"
        )
    bundle = locate(bundles, topic_hash(topic))
    record = state.bundles[str(bundle)]
    owner = record.owner_for_clients()
    if owner is None or owner not in state.sessions:
        return Found(bundle, record.epoch, state.seq)
    where = address_of(state, owner)
    if where is None:
        return Found(bundle, record.epoch, state.seq)
    url = str(state.brokers[owner.broker].info.get("lookup_url", ""))
    partitions = state.topics.get(topic, 0)
    return Found(bundle, record.epoch, state.seq, owner.broker, where.address, url, partitions)


def address_of(state: ClusterState, session: Session) -> Where | None:
    """Where clients of this session connect; None when the journal does not know its process."""
    broker = state.brokers.get(session.broker)
    if broker is None or broker.session.process != session.process:
        return None
    return Where(broker.id, str(broker.info.get("data_address", "")), state.seq)


class AgentDirectory:
    """What the runtime asks when a client connects to the wrong broker."""

    def __init__(self, state: Callable[[], ClusterState]) -> None:
        self._state = state

    def owner_of(self, topic: str) -> Where | None:
        """The owner's address; None when the topic has no owner, or its name or namespace is unknown."""
        try:
            found = find(self._state(), topic)
        except BallastError:
            return None
        return Where(found.broker, found.address, found.seq) if found.broker else None
