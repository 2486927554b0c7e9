"""What an agent says on Kafka beside heartbeats and load reports. Answers, inventories, requests.

Invariant: nothing is said for a session that is not registered or whose lease has lapsed; only lookups' assign
requests name no session and need none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from controller.agent import records as wire
from controller.agent.handover.actions import Answer
from controller.agent.reports.split_proposals import Proposal
from controller.agent.session.heartbeat import Sender
from controller.agent.session.session import Sessions
from controller.bus.topics import TopicNames
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.state import ClusterState

GOODBYE_WAIT_S = 2.0


class Voice:
    """Sends for whatever session is current."""

    def __init__(
        self,
        broker: str,
        sender: Sender,
        names: TopicNames,
        *,
        sessions: Callable[[], Sessions],
        state: Callable[[], ClusterState],
        wall_ms: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._sender = sender
        self._names = names
        self._sessions = sessions
        self._state = state
        self._wall_ms = wall_ms

    def answer(self, said: Answer) -> None:
        """Something the journal waits for."""
        self._send(wire.answer_event(self._sessions().current, said, self._state().seq, self._wall_ms()))

    def event(self, kind: str, **fields: Any) -> None:
        """Any other broker event."""
        if self._sessions().may_act():
            self._send(wire.event(self._sessions().current, kind, self._state().seq, self._wall_ms(), **fields))

    def serving(self, kind: str, serving: Mapping[Bundle, int]) -> Future[tuple[int, int]] | None:
        """`inventory` or `observed`; the future tells when Kafka has it."""
        if not self._sessions().may_act():
            return None
        record = wire.serving_event(self._sessions().current, kind, serving, self._state().seq, self._wall_ms())
        return self._send(record)

    def propose(self, proposal: Proposal) -> None:
        """A split of a bundle that this session owns at rest; others are silently left alone."""
        record = self._state().bundles.get(str(proposal.bundle))
        if record is not None and record.state is State.OWNED and record.by == self._sessions().current:
            self.event(
                "split_proposed",
                bundle=str(proposal.bundle),
                epoch=record.epoch,
                boundary=proposal.boundary,
                reason=proposal.reason.value,
            )

    async def goodbye(self) -> None:
        """The session ends. Only after everything was dropped; waits a little for Kafka to have it."""
        record = wire.event(self._sessions().current, "goodbye", self._state().seq, self._wall_ms())
        sent = asyncio.wrap_future(self._send(record))
        done, _ = await asyncio.wait([sent], timeout=GOODBYE_WAIT_S)
        for future in done:
            future.exception()  # a goodbye that is lost costs one lease, nothing else

    def ask_for(self, bundle: Bundle) -> None:
        """Somebody wants a bundle that nobody owns."""
        record = wire.assign_request(self._broker, bundle, self._wall_ms())
        self._sender.send(self._names.assign_requests, record, key=str(bundle))

    def _send(self, record: Mapping[str, Any]) -> Future[tuple[int, int]]:
        return self._sender.send(self._names.broker_events, record, key=self._broker)
