"""An agent from its constructor to the end of its run: what it refuses, what it cleans up, what it says of the end."""

from __future__ import annotations

import pytest

from controller.agent.agent import Agent
from controller.agent.connections import AgentConnections
from controller.agent.options import AgentOptions
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.bus.producer import to_json
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.events import parse_heartbeat
from tests.unit.agent.session_stage import NAMES
from tests.unit.agent.test_agent_clocks import Kafka, NoFeed, Tables

# ---------------------------------------------------------------- names


def agent_named(broker: str, nonce: str) -> Agent:
    kafka = Kafka()
    connections = AgentConnections(kafka, kafka, lambda topics, take, fail: NoFeed(), Tables(), NAMES)
    return Agent(broker, nonce, MemoryRuntime(MemoryFences()), connections, AgentOptions())


def is_taken(broker: str, nonce: str) -> bool:
    """Whether the controller takes a heartbeat of such an agent."""
    record = {"v": 1, "broker": broker, "incarnation": 1, "nonce": nonce, "session": 1, "applied_seq": 0}
    try:
        parse_heartbeat(to_json(record))
    except BadRecord:
        return False
    return True


@pytest.mark.parametrize("broker", ["", "c#1", "c 1", "c\n", "ç1", "c" * 256])
def test_a_broker_id_that_no_controller_takes_is_refused_and_named(broker: str) -> None:
    with pytest.raises(ConfigError, match=r"broker_id: '.*1 to 255 ASCII letters, digits and . _ - : \[ \]"):
        agent_named(broker, "n1")
    assert not is_taken(broker, "n1")


@pytest.mark.parametrize("nonce", ["", "not ok!", "n-1", "n" * 65, "ñ"])
def test_a_nonce_that_no_controller_takes_is_refused_and_named(nonce: str) -> None:
    with pytest.raises(ConfigError, match=r"nonce: '.*1 to 64 ASCII letters and digits"):
        agent_named("c1", nonce)
    assert not is_taken("c1", nonce)


@pytest.mark.parametrize("broker", ["c1", "[::1]:8080", "host-1.example:80", "c" * 255])
@pytest.mark.parametrize("nonce", ["n", "0aF" * 21])
def test_names_that_a_controller_takes_are_taken(broker: str, nonce: str) -> None:
    assert agent_named(broker, nonce).broker == broker
    assert is_taken(broker, nonce)
