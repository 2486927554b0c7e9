"""Exceptions that nobody catches in a simulated process make the run fail; a real one would log them and go on."""

from __future__ import annotations

from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from controller.agent.agent import Agent
from controller.agent.handover.driver import HandoverDriver
from controller.brokers.reference.client.producer import Producer
from controller.brokers.reference.store.server import StoreServer
from controller.domain.errors import StoreError
from controller.testbed.simulated.kafka import Link, SimKafka, SimProducer
from controller.testbed.simulated.runs import run_seed
from controller.testbed.simulated.virtual_loop import unforeseen
from controller.testbed.simulated.world import World


def fail(*args: Any) -> None:
    raise KeyError("planted")


def test_an_agents_callback_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HandoverDriver, "_on_finished", fail)
    failure = run_seed(1).failure
    assert "an exception was lost in" in failure
    assert "KeyError: 'planted'" in failure


def test_a_store_whose_callback_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreServer, "_flush", fail)
    assert "an exception was lost in the store" in run_seed(1).failure


def test_clients_that_cannot_read_an_answer_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "handle_opened", lambda producer, answer: fail())
    assert "an exception was lost in clients" in run_seed(1).failure


def test_an_agent_that_ends_by_an_error_of_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agent, "_begin", fail)
    assert "ended as broken: KeyError: 'planted'" in run_seed(1).failure


def test_whoever_is_told_of_an_acknowledgement_and_fails_is_found() -> None:
    world = World(1)
    producer = SimProducer(SimKafka(world), Link(Random(1)), lambda: True)
    sent: Future[tuple[int, int]] = producer.send("t", {})
    sent.add_done_callback(fail)
    with pytest.raises(KeyError):
        world.run(1_000)


@pytest.mark.parametrize(
    ("message", "error", "found"),
    [
        ("Task exception was never retrieved", StoreError("gone"), False),
        ("Future exception was never retrieved", ConnectionResetError(), False),
        ("Task exception was never retrieved", KeyError("x"), True),
        ("call failed", OSError(), True),
        ("client x ended", OSError(), True),
        ("Task was destroyed but it is pending!", None, False),
    ],
)
def test_only_what_no_fault_causes_is_unforeseen(message: str, error: Exception | None, found: bool) -> None:
    assert bool(unforeseen({"message": message, "exception": error})) == found
