"""The sessions of a Pulsar cluster's agent, one of each broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from controller.agent.cluster.another_cluster import check_cluster
from controller.agent.cluster.sessions import ClusterSessions
from controller.agent.session.lease import Lease
from controller.agent.session.registration import Verdict
from controller.domain.entries import Kind
from controller.domain.errors import ConfigError
from controller.domain.ids import Session
from controller.domain.observed import Adoption, AdoptionPhase
from controller.domain.state import METADATA, ClusterState
from tests.unit.agent.agent_world import Journal
from tests.unit.control.observed_driver import ObservedDriver

LEASE_MS = 6_000
FIRST = Session("a:1", 1, "n", 1)


class Heartbeats:
    """Acknowledges each heartbeat at once, unless Kafka is away."""

    def __init__(self) -> None:
        self.sent: list[Session] = []
        self.away = False
        self.now_ms = 1_000_000

    def send(self, session: Session, lease: Lease, *more: Any) -> None:
        self.sent.append(session)
        if not self.away:
            lease.renew(self.now_ms, self.now_ms)


class Stage:
    def __init__(self) -> None:
        self.journal, self.beats, self.lost = Journal(), Heartbeats(), list[Verdict]()
        self.sessions = ClusterSessions(
            "n", LEASE_MS, cast(Any, self.beats), lambda: self.journal.state, lambda: self.beats.now_ms,
            self.lost.append,
        )  # fmt: skip
        self.sessions.list_brokers({"a:1": {}})
        self.sessions.beat()

    def register(self, session: Session = FIRST) -> None:
        self.journal.register(session)
        self.sessions.on_applied()


def test_a_session_acts_once_it_is_registered_and_not_before() -> None:
    stage = Stage()
    assert (stage.beats.sent, stage.sessions.may_act("a:1")) == ([FIRST], False)
    stage.register()
    assert stage.sessions.session_of("a:1") == FIRST


def test_a_session_whose_lease_expired_never_acts_again() -> None:
    """The controller may have ended its orders by then, and given others about the same bundles."""
    stage = Stage()
    stage.register()
    stage.beats.away = True
    stage.beats.now_ms += LEASE_MS
    assert not stage.sessions.may_act("a:1")
    stage.beats.away = False
    stage.sessions.beat()
    assert stage.beats.sent[-1] == FIRST._replace(number=2)
    assert not stage.sessions.may_act("a:1"), "it is not registered yet"
    stage.register(FIRST._replace(number=2))
    assert stage.sessions.session_of("a:1") == FIRST._replace(number=2)


def test_a_session_that_the_journal_ended_is_followed_by_the_next_one() -> None:
    """Its heartbeats are acknowledged by Kafka all the same, so its lease would never expire."""
    stage = Stage()
    stage.register()
    stage.journal.add(Kind.SESSION_ENDED, broker="a:1", session=str(FIRST), reason="lease")
    stage.sessions.on_applied()
    stage.beats.now_ms += 1_000
    stage.sessions.beat()
    assert stage.beats.sent[-1] == FIRST._replace(number=2)
    assert stage.lost == []


def test_a_broker_that_restarted_gets_the_next_session() -> None:
    stage = Stage()
    stage.register()
    for started_ms in (7_000, 7_000, 0):  # 0: not known
        stage.sessions.note_start("a:1", started_ms)
        assert stage.sessions.session_of("a:1") == FIRST
    stage.sessions.note_start("a:1", 8_000)
    assert not stage.sessions.may_act("a:1"), "what the old process had is gone"
    stage.sessions.beat()
    assert stage.beats.sent[-1] == FIRST._replace(number=2)


def test_an_agent_observes_only_the_cluster_that_the_journal_has_adopted() -> None:
    state = ClusterState()
    check_cluster(state, "blue", ["a:1"])
    state.observed.adoption = Adoption(AdoptionPhase.ADOPTED, {}, 7, cluster="blue")
    check_cluster(state, "blue", ["a:1"])
    with pytest.raises(ConfigError, match="Pulsar cluster is blue, not green; nothing was registered"):
        check_cluster(state, "green", ["a:1"])
    state.observed.adoption = Adoption(AdoptionPhase.RELEASED, {}, 9, cluster="blue")
    check_cluster(state, "green", ["a:1"])


def test_an_agent_observes_no_cluster_of_which_the_journal_knows_no_broker() -> None:
    """Two clusters are often called alike. What an agent registers could be adopted in place of the right cluster."""
    state = ObservedDriver().state
    check_cluster(state, "local", ["a:1"])
    driver = ObservedDriver()
    driver.join("a:1", nonce="agent", authority=METADATA, runtime="pulsar", can_fence=False)
    check_cluster(driver.state, "local", ["b:1", "a:1"])
    with pytest.raises(ConfigError, match="the brokers b:1, and the journal knows a:1: none of these; nothing"):
        check_cluster(driver.state, "local", ["b:1"])
