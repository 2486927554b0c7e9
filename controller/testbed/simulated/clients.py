"""Clients that look up topics: at any agent, through the real handler, at random times.

An answer must come from an agent that has a valid lease at that moment, and must name whom the journal names up to the
seq in the answer; for a bundle that nobody has, the agent asks the controller for an owner, as it does for any client.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from controller.domain.ids import topic_hash
from controller.domain.ownership import State
from controller.domain.ring import locate
from controller.domain.state import ClusterState
from controller.testbed.simulated.broker import LOOKUP, SimBroker
from controller.testbed.simulated.world import World

EVERY_MS = (100, 1_500)
TOPICS = 12
FOUND = 200


class SimClients:
    """Looks up for as long as the run lasts. `breach` is told of a wrong answer."""

    def __init__(
        self, world: World, namespace: str, living: Callable[[], list[SimBroker]], breach: Callable[[str], None]
    ) -> None:
        self.answers: Counter[str] = Counter()
        self._world, self._living, self._breach = world, living, breach
        self._dice: Random = world.dice("clients")
        self._topics = [f"persistent://{namespace}/topic-{number}" for number in range(TOPICS)]
        self._states: dict[int, ClusterState] = {}
        self._next()

    def note(self, state: ClusterState) -> None:
        """The journal has come to this state."""
        self._states[state.seq] = state

    def _next(self) -> None:
        low, high = EVERY_MS
        self._world.after(self._dice.uniform(low, high), self._look_up)

    def _look_up(self) -> None:
        living, topic, drawn = self._living(), self._dice.choice(self._topics), self._dice.random()
        if living:
            one = living[int(drawn * len(living))]
            one.loop.call_soon_threadsafe(lambda: one.loop.create_task(self._ask(one, topic)))
        self._next()

    async def _ask(self, one: SimBroker, topic: str) -> None:
        query = f"topic={topic}".encode()
        request = Request({"type": "http", "method": "GET", "path": LOOKUP, "query_string": query, "headers": []})
        response: Response = await one.lookup(request)
        self.answers[f"lookup answered {response.status_code}"] += 1
        if response.status_code == FOUND and one.alive:
            self._judge(one, topic, json.loads(bytes(response.body)))

    def _judge(self, one: SimBroker, topic: str, answer: dict[str, Any]) -> None:
        if not one.has_lease():
            self._breach(f"{one.broker} answers a lookup without a valid lease")
        state = self._states.get(answer["seq"])
        if state is not None and answer["broker"] != (whom := owner_for_clients(state, topic)):
            self._breach(f"{one.broker} names {answer['broker']!r} for {answer['bundle']}, the journal {whom!r}")


def owner_for_clients(state: ClusterState, topic: str) -> str:
    """Whom clients should ask, by the state table: the owner, or who takes over once a release has begun. Empty: none,
    or one whose session has ended, or whose broker has another process by now."""
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    record = state.bundles[str(locate(state.namespaces[namespace], topic_hash(topic)))]
    taking_over = record.state in (State.ASSIGNING, State.RELEASING)
    session = record.to if taking_over else record.by
    if session is None or record.state in (State.FREE, State.RETIRED) or session not in state.sessions:
        return ""
    return session.broker if state.brokers[session.broker].session.process == session.process else ""
