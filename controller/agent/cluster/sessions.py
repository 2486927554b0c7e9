"""The sessions of a cluster's agent: one for each broker that Pulsar lists, all with the agent's nonce.

Each has a lease of its own, renewed by its acknowledged heartbeats. A broker that restarted (its start time changed)
gets a new session, and so does one whose lease expired. The agent must exit once the journal names another nonce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.lease import Lease
from controller.agent.session.registration import REPLACED, Standing, Verdict, first_session, judge, next_session
from controller.domain.ids import Session
from controller.domain.state import ClusterState


@dataclass(slots=True)
class _Held:
    """One broker's session."""

    session: Session
    lease: Lease
    started_ms: int = 0  # of the broker's process; 0: not known yet
    info: Mapping[str, Any] = field(default_factory=dict)


class ClusterSessions:
    """Call `list_brokers` after each look at the cluster, `beat` at the heartbeat's interval, `on_applied` after the
    journal moved on. Times are ms of the boot clock."""

    def __init__(
        self,
        nonce: str,
        lease_ms: int,
        heartbeats: HeartbeatSender,
        state: Callable[[], ClusterState],
        boot_ms: Callable[[], int],
        on_replaced: Callable[[Verdict], None],
    ) -> None:
        self.nonce = nonce
        self._lease_ms, self._heartbeats = lease_ms, heartbeats
        self._state, self._boot_ms, self._on_replaced = state, boot_ms, on_replaced
        self._held: dict[str, _Held] = {}

    @property
    def brokers(self) -> list[str]:
        """The brokers with a session, sorted."""
        return sorted(self._held)

    def list_brokers(self, listed: Mapping[str, Mapping[str, Any]]) -> list[Session]:
        """Begin sessions for new brokers, whose `info` is given; returns those that ended, to be deregistered."""
        gone = [self._held.pop(broker).session for broker in self.brokers if broker not in listed]
        for broker, info in listed.items():
            if broker in self._held:
                self._held[broker].info = info
            else:
                session = first_session(self._state(), broker, self.nonce)
                self._held[broker] = _Held(session, Lease(self._lease_ms, self._boot_ms()), info=info)
        return gone

    def note_start(self, broker: str, started_ms: int) -> None:
        """The broker's process started then; another time than before is a restart, which gets a new session."""
        held = self._held.get(broker)
        if held is None or not started_ms:
            return
        if held.started_ms and held.started_ms != started_ms:
            held.lease.end()
        held.started_ms = started_ms

    def beat(self) -> None:
        """Send a heartbeat for every session."""
        state, now_ms = self._state(), self._boot_ms()
        for held in self._held.values():
            if held.lease.has_expired(now_ms):
                held.session, held.lease = next_session(held.session), Lease(self._lease_ms, now_ms)
            self._heartbeats.send(held.session, held.lease, state.seq, held.info, state.journal_id or "")

    def on_applied(self) -> None:
        """Judge every session by the journal."""
        state = self._state()
        for held in self._held.values():
            verdict = judge(state, held.session)
            if verdict.standing in REPLACED:
                self._on_replaced(verdict)
                return
            if verdict.standing is Standing.ENDED:
                held.lease.end()

    def may_act(self, broker: str) -> bool:
        """Whether the broker's session is registered and its lease valid at this very moment."""
        return self.session_of(broker) is not None

    def session_of(self, broker: str) -> Session | None:
        """The broker's session if it is registered and its lease is valid."""
        held = self._held.get(broker)
        if held is None or held.lease.has_expired(self._boot_ms()):
            return None
        return held.session if held.session in self._state().sessions else None

    def any_session(self) -> Session | None:
        """A session that may speak for the cluster."""
        return next((session for broker in self.brokers if (session := self.session_of(broker))), None)
