"""A broker that accepts connections and never answers: nobody waits for it, and nobody asks it again meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from controller.brokers.pulsar.outcomes import Outcome
from controller.brokers.pulsar.poll import ClusterPoll, Polled
from tests.unit.brokers.pulsar.stand_in import StandIn, hang
from tests.unit.brokers.pulsar.test_pulsar_poll import played


async def poll_until(poll: ClusterPoll, brokers: set[str]) -> dict[str, Polled]:
    """Start a poll; return once these brokers are known, whatever the others do."""
    found: dict[str, Polled] = {}
    known = asyncio.Event()

    def take(polled: Polled) -> None:
        found[polled.broker] = polled
        if brokers <= found.keys():
            known.set()

    polling = asyncio.create_task(poll.poll(60, take))
    await asyncio.wait_for(known.wait(), 30)
    polling.cancel()
    return dict(found)


def test_a_broker_that_hangs_delays_nobody_and_is_not_asked_again() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[dict[str, Polled]]:
        await poll.start()
        cluster.brokers[1].answers["/ownedNamespaces"] = hang
        others = {"broker-1:8080", "broker-3:8080"}
        return [await poll_until(poll, others), await poll_until(poll, {*others, "broker-2:8080"})]

    first, second = played(scenario, read_timeout_s=60.0)
    assert set(first) == {"broker-1:8080", "broker-3:8080"}
    assert second["broker-2:8080"].failure is not None
    assert second["broker-2:8080"].failure.outcome is Outcome.TIMED_OUT
    assert second["broker-1:8080"].reported is not None


@pytest.mark.parametrize("path", ["", "/topics"])
def test_nineteen_brokers_are_known_while_the_twentieth_accepts_and_never_answers(path: str) -> None:
    """It answers only when the others are known, so nobody can have waited for it."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[str, list[str]]:
        await poll.start()
        poll.with_topics = True
        silent, known = cluster.brokers[7], list[str]()
        silent.answers[path] = hang

        def take(polled: Polled) -> None:
            known.append(polled.broker)
            if len(known) == 19:
                cluster.released.set()

        await poll.poll(110, take)
        return silent.id, known

    silent, known = played(scenario, brokers=20, read_timeout_s=120.0, topics_within_s=120.0)
    assert len(set(known)) == 20
    assert known[-1] == silent
