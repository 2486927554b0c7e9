"""Whom a lookup names at each point of a hand-over, and when an agent answers none at all."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request

from controller.agent.lookup import LookupService
from controller.agent.metrics import AgentMetrics
from controller.agent.signal import Signal
from controller.domain.entries import Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from tests.unit.agent.agent_world import NAMESPACE, WHOLE, Journal

A, B = Session("a:1", 1, "na", 1), Session("b:1", 1, "nb", 1)
TOPIC = f"persistent://{NAMESPACE}/t"


class Desk:
    """The lookup server of one agent, whose view is the whole journal. `asked`: the bundles it asked an owner for."""

    def __init__(self, journal: Journal) -> None:
        self.live, self.ready = True, True
        self.ends_while_it_waits = False
        self.asked: list[Bundle] = []
        self._changes = Signal()
        self._service = LookupService(
            lambda: journal.state if self.ready else None,
            self._changes,
            self.asked.append,
            wait_ms=1,
            metrics=AgentMetrics(),
            follows=self._follows,
        )

    def _follows(self) -> bool:
        followed, self.live = self.live, self.live and not self.ends_while_it_waits
        return followed

    def look_up(self, **query: str) -> tuple[int, dict[str, Any]]:
        """Status and body of a lookup."""
        text = "&".join(f"{key}={value}" for key, value in ({"topic": TOPIC} | query).items())
        request = Request({"type": "http", "method": "GET", "path": "/lookup", "query_string": text.encode()})
        response = asyncio.run(self._service.lookup(request))
        return response.status_code, json.loads(bytes(response.body))


@pytest.fixture
def journal() -> Journal:
    made = Journal()
    for session in (A, B):
        made.add(
            Kind.REGISTERED,
            broker=session.broker,
            session=str(session),
            data={"info": {"data_address": f"{session.broker}0", "lookup_url": f"http://{session.broker}"}},
        )
    made.namespace()
    return made


@pytest.fixture
def desk(journal: Journal) -> Desk:
    return Desk(journal)


def test_each_step_of_a_hand_over_names_one_owner(journal: Journal, desk: Desk) -> None:
    """From `releasing` on clients wait at the target, which holds their requests; the owner may hang and never know."""
    for state, epoch, by, to, more, named in [
        (State.ASSIGNING, 1, None, A, {}, "a:1"),
        (State.OWNED, 1, A, None, {}, "a:1"),
        (State.TRANSFERRING, 2, A, B, {}, "a:1"),
        (State.RELEASING, 2, A, B, {}, "b:1"),
        (State.RELEASING, 2, A, B, {"fence": True}, "b:1"),
        (State.OWNED, 2, B, None, {}, "b:1"),
        (State.SPLITTING, 3, B, None, {"boundary": 7}, "b:1"),
    ]:
        journal.own(state, epoch, by, to, **more)
        status, found = desk.look_up()
        assert (status, found["broker"], found["epoch"]) == (200, named, epoch), state
    assert desk.asked == []


def test_an_answer_tells_how_many_partitions_a_topic_has(journal: Journal, desk: Desk) -> None:
    """A client of the name itself would open another topic than its partitions."""
    journal.own(State.ASSIGNING, 1, to=A)
    journal.add(Kind.TOPIC_CREATED, data={"topic": TOPIC, "partitions": 3})
    journal.add(Kind.TOPIC_CREATED, data={"topic": f"{TOPIC}2", "partitions": 0})
    assert desk.look_up()[1]["partitions"] == 3
    for other in (f"{TOPIC}2", f"{TOPIC}-partition-1", f"{TOPIC}-never-created"):
        assert "partitions" not in desk.look_up(topic=other)[1], "it is one topic"


def test_an_unload_names_nobody_from_its_beginning_on(journal: Journal, desk: Desk) -> None:
    journal.own(State.ASSIGNING, 1, to=A)
    journal.own(State.OWNED, 1, by=A)
    journal.own(State.RELEASING, 2, by=A)
    status, found = desk.look_up()
    assert (status, found["error"], desk.asked) == (503, "unowned", [WHOLE])


@pytest.mark.covers("ownership-ends-with-session")
def test_an_owner_whose_session_has_ended_is_not_named(journal: Journal, desk: Desk) -> None:
    """Between the end of the session and the bundle's next entry the journal still says `owned`."""
    journal.own(State.ASSIGNING, 1, to=A)
    journal.own(State.OWNED, 1, by=A)
    journal.add(Kind.SESSION_ENDED, broker=A.broker, session=str(A), reason="lease")
    status, found = desk.look_up()
    assert (status, found["error"], desk.asked) == (503, "unowned", [WHOLE])


def test_an_agent_without_a_live_session_answers_no_lookup(journal: Journal, desk: Desk) -> None:
    """It may hang behind the journal and name itself for what others serve by now."""
    journal.own(State.ASSIGNING, 1, to=A)
    journal.own(State.OWNED, 1, by=A)
    desk.live = False
    status, found = desk.look_up()
    assert (status, found["error"], desk.asked) == (503, "cut_off", [])


def test_a_lookup_that_has_waited_is_not_answered_by_a_session_that_has_ended(journal: Journal, desk: Desk) -> None:
    journal.own(State.ASSIGNING, 1, to=A)
    journal.own(State.OWNED, 1, by=A)
    desk.ends_while_it_waits = True
    status, found = desk.look_up()
    assert (status, found["error"]) == (503, "cut_off")


def test_an_agent_that_has_read_nothing_answers_no_lookup(desk: Desk) -> None:
    desk.ready = False
    status, found = desk.look_up()
    assert (status, found["error"]) == (503, "starting")


def test_a_lookup_waits_for_the_seq_that_it_needs(journal: Journal, desk: Desk) -> None:
    """A client that was sent on knows of an entry; an older view would send it back."""
    journal.own(State.ASSIGNING, 1, to=A)
    seq = journal.state.seq
    assert desk.look_up(at_least=str(seq))[0] == 200
    status, found = desk.look_up(at_least=str(seq + 1))
    assert (status, found["error"], found["seq"]) == (503, "behind", seq)


@pytest.mark.parametrize("at_least", ["-1", "1.5", "٣", "9" * 19, "x"])
def test_what_is_no_seq_is_refused(desk: Desk, at_least: str) -> None:
    assert desk.look_up(at_least=quote(at_least))[0] == 400
