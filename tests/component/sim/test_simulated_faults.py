"""Faults of a simulated deployment, one at a time: what strikes, and what the real code makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.agent import records
from controller.agent.handover.actions import Answer
from controller.agent.session.session import Sessions
from controller.control import step
from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.settings.policy import ControlSettings
from controller.service.records import Parsed, parse_rows
from controller.testbed.simulated import controller, runtime
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.checks.conditions import GENERATIONS
from controller.testbed.simulated.checks.halves import Halves
from controller.testbed.simulated.deployment import BROKERS, LAG_LIMIT, Deployment
from controller.testbed.simulated.faults.orders import Orders

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


def test_a_broker_that_is_slow_to_drop_serves_on_without_a_lease(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SLOW_DROPS", 1.0)
    one = next(one for one in deployment.living() if one.serving())
    served = one.runtime.serving()
    one.runtime.slow_ms = LEASE_MS
    one.link.cut_until_ms = deployment.world.now_ms + 2 * LEASE_MS
    deployment.run(LEASE_MS + 3_000)
    assert not one.leased()
    assert (one.serving(), one.runtime.serving()) == ({}, served)
    deployment.settle()
    assert deployment.world.counts["drop is slow"] > 0


def test_a_broker_that_serves_on_without_a_lease_is_found(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sessions, "check_lease", lambda sessions: None)
    one = next(one for one in deployment.living() if one.serving())
    one.link.cut_until_ms = deployment.world.now_ms + 2 * LEASE_MS
    with pytest.raises(InvariantBroken, match="and has had no lease for"):
        deployment.run(LEASE_MS + 3_000)


def test_committed_records_that_come_again_change_nothing(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "REPLAYED", 1.0)
    dropped: list[int] = []

    def parse(*given: Any) -> Parsed:
        found = parse_rows(*given)
        dropped.append(found.dropped)
        return found

    monkeypatch.setattr("controller.service.loop.parse_rows", parse)
    commands = [deployment.command("unload_bundle", bundle=str(bundle)) for bundle in deployment.bundles()]
    deployment.run(3_000)
    assert sum(dropped) > len(commands)
    one = deployment.controller()
    assert one is not None
    one.kill()
    del dropped[:]
    deployment.settle()
    assert dropped[0] > 0, "of the first batch, which begins before the journal's offsets"


def test_what_splits_have_made_is_split_again() -> None:
    deployment = Deployment(3, ControlSettings(lag_limit_entries=LAG_LIMIT))
    try:
        deployment.begin()
        assert Orders(deployment).kinds["split again"][1](deployment.world.random)
        deployment.run(8_000)
        counts = deployment.world.counts
        assert [counts[name] for name in GENERATIONS] == [1, 1, 1]
        deployment.settle()
    finally:
        deployment.close()


def test_every_machine_has_a_wall_clock_that_drifts_and_may_be_set(deployment: Deployment) -> None:
    clocks = deployment.wall_clocks()
    assert len(clocks) == len(BROKERS) + 3  # the controller's, Kafka's, the store's
    before = [clock() for clock in clocks]
    for clock in clocks:
        clock.step_ms -= 3_600_000
    since_ms = deployment.world.now_ms
    deployment.run(10_000)
    went_on_ms = [clock() - at + 3_600_000 for clock, at in zip(clocks, before, strict=True)]
    assert all(9_290 < ms < 10_710 for ms in went_on_ms)
    assert min(went_on_ms) < 9_990 < 10_010 < max(went_on_ms)
    beats = deployment.names.of_broker(BROKERS[0]).heartbeats
    (newest, *_), (oldest, *_) = reversed(deployment.kafka.records(beats)), deployment.kafka.records(beats)
    assert newest.timestamp_ms < oldest.timestamp_ms
    assert newest in deployment.kafka.records(beats, since_ms)
    assert oldest not in deployment.kafka.records(beats, since_ms)
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


@pytest.mark.parametrize("later", [0, 1])
def test_a_broker_may_refuse_to_split_what_it_serves_and_nothing_else(deployment: Deployment, later: int) -> None:
    one = next(one for one in deployment.living() if one.serving())
    bundle = next(iter(one.serving()))
    deployment.command("split_bundle", bundle=str(bundle))
    while (record := one.agent.watcher.state.bundles[str(bundle)]).state is not State.SPLITTING:
        deployment.run(5)
    session = one.agent.sessions
    assert session is not None
    said = records.answer_event(session.current, Answer("rejected", bundle, record.epoch + later), 0, 0)
    deployment.witness.sends(one, deployment.names.of_broker(one.broker).broker_events, said)
    if later:
        with pytest.raises(InvariantBroken, match="says 'rejected' of"):
            deployment.witness.check()
    else:
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
