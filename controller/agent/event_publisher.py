"""Publishes an agent's broker events and assign requests: answers, inventories, split proposals, departure.

Invariant: nothing is published for a session that is not registered or whose lease has expired. Assign requests name no
session and need none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from controller.agent import records as wire
from controller.agent.connections import Sender
from controller.agent.handover.actions import Answer
from controller.agent.reports.split_proposals import Proposal
from controller.agent.session.session import Sessions
from controller.bus.topics import TopicNames
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.state import ClusterState

DEREGISTER_WAIT_S = 2.0


class EventPublisher:
    """Publishes for whichever session is current."""

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
        self._names, self._events = names, names.of_broker(broker).broker_events
        self._sessions = sessions
        self._state = state
        self._wall_ms = wall_ms

    def answer(self, said: Answer) -> None:
        """Publish an answer that the journal waits for."""
        self._send(wire.answer_event(self._sessions().current, said, self._state().seq, self._wall_ms()))

    def event(self, kind: str, **fields: Any) -> None:
        """Publish any other broker event."""
        if self._sessions().may_act():
            self._send(wire.event(self._sessions().current, kind, self._state().seq, self._wall_ms(), **fields))

    def serving(self, kind: str, serving: Mapping[Bundle, int]) -> Future[tuple[int, int]] | None:
        """Publish an `inventory` or `observed` event; the future resolves once Kafka has it. None: nothing was sent."""
        if not self._sessions().may_act():
            return None
        record = wire.serving_event(self._sessions().current, kind, serving, self._state().seq, self._wall_ms())
        return self._send(record)

    def propose(self, proposal: Proposal) -> None:
        """Propose a split of a bundle that this session owns at rest; proposals for others are dropped."""
        record = self._state().bundles.get(str(proposal.bundle))
        if record is not None and record.state is State.OWNED and record.by == self._sessions().current:
            self.event(
                "split_proposed",
                bundle=str(proposal.bundle),
                epoch=record.epoch,
                boundary=proposal.boundary,
                reason=proposal.reason.value,
            )

    async def deregister(self) -> None:
        """Tell the controller that the session is over, and wait up to DEREGISTER_WAIT_S for Kafka to have it.

        Call it only after everything was dropped.
        """
        record = wire.event(self._sessions().current, "goodbye", self._state().seq, self._wall_ms())
        sent = asyncio.wrap_future(self._send(record))
        done, _ = await asyncio.wait([sent], timeout=DEREGISTER_WAIT_S)
        for future in done:
            future.exception()  # if it is lost, the session ends one lease later, nothing else

    def ask_for(self, bundle: Bundle) -> None:
        """Request an owner for a bundle that has none."""
        record = wire.assign_request(self._broker, bundle, self._wall_ms())
        self._sender.send(self._names.assign_requests, record, key=str(bundle))

    def _send(self, record: Mapping[str, Any]) -> Future[tuple[int, int]]:
        return self._sender.send(self._events, record, key=self._broker)
