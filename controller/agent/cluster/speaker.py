"""Sends a cluster agent's events: what it says under a session that is registered and whose lease lives.

Facts and rings that the journal has already are not sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from controller.agent import records as wire
from controller.agent.cluster.sessions import ClusterSessions
from controller.agent.connections import AgentConnections
from controller.domain.ids import Session
from controller.domain.state import ClusterState

Boundaries = tuple[int, ...]


class Speaker:
    """Speaks for the cluster: in the name of a broker's session, or of any."""

    def __init__(
        self,
        connections: AgentConnections,
        sessions: ClusterSessions,
        state: Callable[[], ClusterState],
        read_ring: Callable[[str], Awaitable[Boundaries | None]],
        wall_ms: Callable[[], int],
    ) -> None:
        """`read_ring`: a namespace's boundaries; () when it does not exist, None when that is not known."""
        self._connections, self._sessions, self.state = connections, sessions, state
        self._read_ring, self._wall_ms = read_ring, wall_ms
        self._reading: set[str] = set()  # namespaces whose ring is being read

    def send(self, session: Session, kind: str, **fields: Any) -> None:
        """Send an event of the session."""
        record = wire.event(session, kind, self.state().seq, self._wall_ms(), **fields)
        topic = self._connections.names.of_broker(session.broker).broker_events
        self._connections.urgent.send(topic, record, key=session.broker)

    def tell_fact(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Tell a fact that the journal lacks; None: it no longer holds."""
        session = self._sessions.any_session()
        if session is not None and self.state().observed.facts.get(key) != value:
            self.send(session, "fact", data={"key": key, "value": value})

    async def tell_ring(self, namespace: str) -> None:
        """Read a namespace's ring, and tell it if the journal has another one."""
        if namespace in self._reading:
            return
        self._reading.add(namespace)
        try:
            ring = await self._read_ring(namespace)
        finally:
            self._reading.discard(namespace)
        session = self._sessions.any_session()
        if ring is not None and session is not None and self.state().observed.rings.get(namespace, ()) != ring:
            self.send(session, "ring", data={"namespace": namespace, "boundaries": list(ring)})
