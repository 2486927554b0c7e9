"""Faults of a simulated deployment, one at a time: what strikes, and what the real code makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.control import step
from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.checks.halves import Halves
from controller.testbed.simulated.deployment import Deployment

LEASE_MS = 6_000
STALLED_MS = 2_000


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    one = Deployment(3)
    one.begin()
    yield one
    one.close()


def session_of(one: SimBroker) -> str:
    assert one.agent.sessions is not None
    return str(one.agent.sessions.current)


def test_an_agent_whose_records_kafka_refuses_ends_its_session_and_comes_back(deployment: Deployment) -> None:
    one = deployment.living()[0]
    before = session_of(one)
    one.link.refused_until_ms = deployment.world.now_ms + 2 * LEASE_MS
    deployment.run(LEASE_MS + 1_000)
    assert one.serving() == {}
    assert deployment.kafka.counts["record refused"] > 2
    deployment.settle()
    assert session_of(one) != before


def test_a_heartbeat_amid_which_a_broker_is_stopped_has_reached_kafka(deployment: Deployment) -> None:
    one = deployment.living()[0]
    topic = deployment.names.of_broker(one.broker).heartbeats
    one.stall(STALLED_MS)
    sent = len(deployment.kafka.records(topic))
    while one.stalled_until_ms == 0.0:
        deployment.run(10)
    assert len(deployment.kafka.records(topic)) > sent
    assert one.boot_ms() >= int(deployment.world.now_ms * 0.9) + STALLED_MS // 2
    deployment.settle()


def test_a_drained_broker_that_keeps_its_bundles_is_found(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = next(one for one in deployment.living() if one.serving())
    monkeypatch.setattr(step, "evacuate", lambda ctx: None)
    deployment.command("drain", broker=owner.broker)
    for second in range(10):  # in which the controller has something to commit
        deployment.world.after(1_000 * second, lambda: deployment.command("mode", mode="live"))
    with pytest.raises(InvariantBroken, match="is to give its bundles away"):
        deployment.run(12_000)


def test_whoever_serves_what_the_journal_gives_to_another_is_found(deployment: Deployment) -> None:
    owner = next(one for one in deployment.living() if one.serving())
    other = next(one for one in deployment.living() if one is not owner)
    deployment.witness.begins_to_serve(owner, owner.serving())
    deployment.witness.check()
    deployment.witness.begins_to_serve(other, owner.serving())
    with pytest.raises(InvariantBroken, match="which the journal has taken back"):
        deployment.witness.check()


def test_whoever_serves_on_what_the_store_has_fenced_is_found(deployment: Deployment) -> None:
    owner = next(one for one in deployment.living() if one.serving())
    bundle, epoch = next(iter(owner.serving().items()))
    deployment.witness.is_fenced(owner, bundle, epoch - 1)
    deployment.witness.check()
    deployment.witness.is_fenced(owner, bundle, epoch)
    with pytest.raises(InvariantBroken, match="which the store has fenced"):
        deployment.witness.check()


@pytest.mark.parametrize(
    ("lower", "upper", "moved", "wrong"), [(1.0, 5.0, 0, 0), (1.0, 5.0, 1, 1), (5.0, 1.0, 0, 1), (2.0, 2.0, 0, 0)]
)
def test_the_busier_half_that_moves_on_is_found(lower: float, upper: float, moved: int, wrong: int) -> None:
    found: list[str] = []
    halves = Halves(found.append)
    parent = Bundle.parse("t/n/0x00000000_0x40000000")
    children = [str(child) for child in parent.split_at(parent.middle())]
    halves.say(
        {"kind": "split_done", "bundle": str(parent), "epoch": 3, "data": {"lower_load": lower, "upper_load": upper}}
    )
    split = Entry(1, Kind.SPLIT, "c1", 0, 0, bundle=str(parent), data={"children": dict.fromkeys(children, 4)})
    reason = Reason.SPLIT_SEND_ON.value
    sent = Entry(2, Kind.OWNERSHIP, "c1", 0, 0, bundle=children[moved], state="transferring", epoch=5, reason=reason)
    halves.commits([split, sent])
    assert len(found) == wrong
