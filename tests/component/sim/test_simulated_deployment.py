"""Real agents and the real control loop in virtual time: clean seeds stay clean, and planted bugs are found."""

from __future__ import annotations

import pytest

from controller.agent.handover import core
from controller.agent.handover.rules import goal
from controller.agent.records import heartbeat
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.lease import Lease
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Session
from controller.domain.settings.agent_groups import NO_GROUP, AgentGroups
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.sim.ownership.invariants import check_fold
from controller.testbed.simulated.deployment import BROKERS, BUNDLES, LAG_LIMIT, Deployment
from controller.testbed.simulated.nemesis import FAULTS, Nemesis
from controller.testbed.simulated.runs import run_seed, shrink

SEEDS = (*range(1, 15), 2877)  # `make sim` runs many more; 2877: a split fails at the store, and half of it is served


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_may_happen_breaks_an_invariant(seed: int) -> None:
    assert run_seed(seed).failure == ""


@pytest.mark.parametrize("seed", range(1, 6))
def test_nor_where_agents_are_in_groups(seed: int) -> None:
    """One broker in a group of its own, one in none: leases are judged by the ticks in each topic."""
    first, *others, last = BROKERS
    groups = AgentGroups.of_mapping({"first": [first], "others": others})
    assert groups.of(last) == NO_GROUP
    assert run_seed(seed, groups=groups).failure == ""


def test_a_seed_is_always_the_same_run() -> None:
    first, again = run_seed(11, trace=True), run_seed(11, trace=True)
    assert first.trace == again.trace
    assert len(first.trace) > FAULTS


def test_a_quiet_deployment_is_served_and_writes_nothing_more() -> None:
    deployment = Deployment(3)
    try:
        deployment.begin()
        served = [bundle for one in deployment.living() for bundle in one.serving()]
        assert sorted(served) == sorted(deployment.bundles())
        assert len(served) == BUNDLES
        assert {one.broker for one in deployment.living()} == set(BROKERS)
        seq = deployment.store.state.seq
        deployment.run(60_000)
        assert deployment.store.state.seq == seq
    finally:
        deployment.close()


def first_failure(seeds: int = 8) -> str:
    return next(filter(None, (run_seed(seed).failure for seed in range(1, seeds + 1))), "")


def test_a_grantee_that_does_not_wait_for_the_release_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "goal", lambda slot, record, me, released: goal(slot, record, me, True))
    assert first_failure().startswith("InvariantBroken: I1")


def test_a_lease_that_is_renewed_too_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    renew = Lease.renew
    monkeypatch.setattr(Lease, "renew", lambda lease, sent_ms, now_ms: renew(lease, now_ms + 3_000, now_ms))
    assert "lease" in first_failure()  # that lives still, or that is over


def test_a_lease_that_lives_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def renew(lease: Lease, first_send_ms: int, now_ms: int) -> bool:
        lease._until_ms = max(lease._until_ms, first_send_ms + lease.length_ms)
        return True

    monkeypatch.setattr(Lease, "renew", renew)
    assert "was over at" in first_failure()


def test_a_lease_renewed_beside_the_loop_that_asks_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeartbeatSender, "send", send_and_renew_at_once)
    assert "is renewed in the producer's thread" in first_failure()


def send_and_renew_at_once(
    sender: HeartbeatSender, session: Session, lease: Lease, seq: int, info: dict[str, object], journal_id: str
) -> None:
    sent_ms, record = sender._boot_ms(), heartbeat(session, seq, sender._wall_ms(), info, journal_id)
    topic = sender._names.of_broker(session.broker).heartbeats
    sent = sender._sender.send(topic, record, key=session.broker)
    sent.add_done_callback(lambda done: sender._on_done(lease, sent_ms, done))


def test_commands_in_another_order_are_found() -> None:
    """States are equal whatever the order, which decides about the commands that are forgotten first."""
    state = ClusterState(commands={"b": "accepted", "a": "accepted"})
    check_fold(state.copy(), [], state)
    with pytest.raises(InvariantBroken, match="commands in another order"):
        check_fold(ClusterState(commands={"a": "accepted", "b": "accepted"}), [], state)


def test_a_controller_without_a_margin_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "controller.testbed.simulated.deployment.ControlSettings",
        lambda **given: ControlSettings(**{**given, "margin_ms": -2_000}),
    )
    failure = first_failure()
    assert "the controller ends" in failure or "the breaker counts" in failure, failure


def test_a_lost_command_is_found() -> None:
    deployment = Deployment(5)
    try:
        deployment.begin()
        deployment._commands.append("c-never-sent")
        with pytest.raises(InvariantBroken, match="c-never-sent had 0 outcomes"):
            deployment.settle()
    finally:
        deployment.close()


def test_every_kind_of_fault_can_strike() -> None:
    deployment = Deployment(2, ControlSettings(lag_limit_entries=LAG_LIMIT))  # without a limit of bundles
    try:
        deployment.begin()
        nemesis = Nemesis(deployment)
        for name, (_, strike) in nemesis.kinds.items():
            if name != "old entries expire":  # there must be some
                assert strike() is not None, name
            deployment.end_faults()
            deployment.run(8_000)  # what has ended is started again
        for name, (_, strike_beside) in {**nemesis.messages.kinds, **nemesis.orders.kinds}.items():
            assert strike_beside(deployment.world.random) is not None, name
            deployment.end_faults()
            deployment.run(8_000)
        deployment.settle()
    finally:
        deployment.close()


def test_a_failing_run_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 25 faults, those remain without which the run is clean."""

    def strike(nemesis: Nemesis, number: int, name: str) -> None:
        numbers = vars(nemesis).setdefault("numbers", set())
        numbers.add(number)
        if numbers >= {7, 18}:
            raise InvariantBroken("I0: both have struck")

    monkeypatch.setattr(Nemesis, "_strike", strike)
    monkeypatch.setattr(Deployment, "run", lambda deployment, ms: None)
    monkeypatch.setattr(Deployment, "settle", lambda deployment: 0.0)
    smallest, faults = shrink(run_seed(1))
    assert smallest.failure == "InvariantBroken: I0: both have struck"
    assert faults == [7, 18]
