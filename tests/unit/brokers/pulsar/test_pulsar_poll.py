"""Polls of a whole cluster: addresses, both load managers, brokers that do not answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from starlette.requests import Request
from starlette.responses import Response

from controller.brokers.pulsar.addresses import Directory, Members
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import Manager, RuntimeConfiguration
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.poll import ClusterPoll, Polled
from controller.brokers.pulsar.recording.lines import line_of
from controller.brokers.pulsar.topics import GIVE_UP_S, TopicReader
from controller.domain.ids import Session
from controller.loads.recorded import Overrides, read_record, to_load_report
from tests.unit.brokers.pulsar.stand_in import CLUSTER, Broker, StandIn, broken_off, hang, say, stand_in, status

A, B, C = (f"t/n/0x{at:x}0000000_0x{at + 4:x}0000000" for at in (0, 4, 8))
_T = TypeVar("_T")


def played(
    scenario: Callable[[StandIn, ClusterPoll], Awaitable[_T]], brokers: int = 3, extensible: bool = False,
    topics_within_s: float = GIVE_UP_S, wait_for_topics: bool = True, **values: Any,
) -> _T:  # fmt: skip
    """Run a scenario on a stand-in and a poll that has not been started."""

    async def run() -> _T:
        async with (
            stand_in(brokers, extensible) as cluster,
            PulsarAdmin(cluster.settings(**values)) as admin,
            TopicReader(admin, topics_within_s) as topics,
        ):
            for broker, bundle in zip(cluster.brokers, (A, B, C), strict=False):
                broker.held = {bundle: 100.0}
            poll = ClusterPoll(admin, topics, wait_for_topics)
            try:
                return await scenario(cluster, poll)
            finally:
                await poll.stop()

    return asyncio.run(run())


async def poll_once(poll: ClusterPoll, deadline_s: float = 60.0) -> dict[str, Polled]:
    found: dict[str, Polled] = {}
    await poll.poll(deadline_s, lambda polled: found.__setitem__(polled.broker, polled))
    return found


async def members_of(cluster: StandIn, poll: ClusterPoll) -> Members:
    return await Directory(poll.admin, CLUSTER).refresh()


def test_the_modular_manager() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[dict[str, Polled]]:
        await poll.start()
        return [await poll_once(poll), await poll_once(poll)]

    first, second = played(scenario)
    assert [polled.failure for polled in first.values()] == [None] * 3
    assert first["broker-1:8080"].cpu == {"usage": -1.0, "limit": -1.0}
    cpu = second["broker-1:8080"].cpu
    assert cpu is not None
    assert (0 <= cpu["usage"] < 100, cpu["limit"]) == (True, 200.0)
    reported = second["broker-2:8080"].reported
    assert reported is not None
    assert reported.report["lastStats"][B]["msgRateIn"] == 100.0
    assert second["broker-2:8080"].manager is Manager.MODULAR


def test_each_list_has_the_number_of_its_own_request() -> None:
    """Of two brokers that list one bundle in the same poll, the one that was asked last is right."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[dict[str, Polled]]:
        await poll.start()
        first = await poll_once(poll)
        cluster.brokers[2].answers["/ownedNamespaces"] = status(500)
        return [first, await poll_once(poll)]

    first, second = played(scenario)
    numbers = [first[broker].sent for broker in sorted(first)]
    assert 0 < numbers[0] < numbers[1] < numbers[2]
    assert second["broker-1:8080"].sent > numbers[2]
    assert second["broker-3:8080"].sent == 0, "it did not say what it owns"


def test_who_reads_topics_for_the_first_time_still_says_what_it_owns() -> None:
    """Else every broker of a large cluster would be suspect after the start of its agent."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[Polled]:
        read = asyncio.Event()

        async def wait(broker: Broker, request: Request) -> Any:
            await read.wait()
            return broker.topics()

        cluster.brokers[0].answers["/topics"] = wait
        await poll.start()
        poll.with_topics = True
        found = [(await poll_once(poll, 0.3))["broker-1:8080"] for _ in range(4)]
        read.set()
        while found[-1].reported is None:
            found.append((await poll_once(poll))["broker-1:8080"])
        return found

    *unread, known = played(scenario, brokers=1, extensible=True, wait_for_topics=False)
    assert all(polled.owned and polled.failure for polled in unread), [polled.owned for polled in unread]
    assert "have not been read yet" in str(unread[0].failure)
    assert known.reported is not None
    assert known.reported.report["lastStats"][A]["msgRateIn"] == 100.0


def test_the_extensible_manager_says_by_topics_what_bundles_carry() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[dict[str, Polled], int]:
        await poll.start()
        poll.with_topics = True
        await poll_once(poll)
        cluster.brokers[0].held, cluster.brokers[1].held = {}, {A: 1.0, B: 100.0}
        found = await poll_once(poll)
        asked = [path for path, _ in cluster.brokers[1].asked if path.endswith("/topics")]
        return found, len(asked)

    found, asked = played(scenario, extensible=True)
    assert {polled.manager for polled in found.values()} == {Manager.EXTENSIBLE}
    assert asked == 1, "once in a statistics period"
    moved = found["broker-2:8080"].reported
    assert moved is not None
    assert moved.report["lastStats"][A]["msgRateIn"] == 100.0, "its load came with it"
    assert moved.report["lastStats"][A]["backlogSize"] == 20
    assert moved.report["cpu"] == {"usage": 60.0, "limit": 200.0}
    line = line_of(found["broker-2:8080"])
    report = to_load_report(read_record(line, 1), Session("b", 1, "n", 1), 1, Overrides(unknown_nic_gbps=1.0))
    assert report["resources"]["bandwidth_in"] == {"usage": 200_000.0, "limit": 125e6}
    assert report["totals"]["unacked"] == 12


@pytest.mark.parametrize(
    ("path", "answer", "outcome"),
    [
        ("/ownedNamespaces", status(500), Outcome.SERVER_ERROR),
        ("/ownedNamespaces", broken_off, Outcome.CUT_OFF),
        ("/ownedNamespaces", say(b"[]"), Outcome.BAD_ANSWER),
        ("/load-report", say(b'{"lastStats": 7}'), Outcome.BAD_ANSWER),
        ("/load-report", status(401), Outcome.UNAUTHENTICATED),
        ("/mbeans", status(500), None),
        ("/mbeans", say(b"[]"), None),
    ],
)
def test_a_bad_answer_is_a_gap_of_that_broker_alone(path: str, answer: Any, outcome: Outcome | None) -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> dict[str, Polled]:
        await poll.start()
        cluster.brokers[1].answers[path] = answer
        return await poll_once(poll)

    found = played(scenario, brokers=2)
    assert found["broker-1:8080"].failure is None
    failure = found["broker-2:8080"].failure
    assert (failure and failure.outcome) == outcome
    if outcome is None:
        assert found["broker-2:8080"].cpu is None
        assert line_of(found["broker-2:8080"])["process_cpu"]["limit"] < 0, "unknown, not Pulsar's host-wide figure"


def test_topics_that_cannot_be_read_leave_the_modular_report_as_it_is() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[dict[str, Polled], list[Outcome]]:
        await poll.start()
        poll.with_topics = True
        broker, outcomes = cluster.brokers[0], []
        for body in (b'{"t/n": 1}', b'{"t/n": {"0x0": {"persistent": {"x": 3}}}}'):
            broker.answers["/topics"] = say(body)
            with pytest.raises(CallFailed) as error:
                await poll._topics.read(broker.url)
            outcomes.append(error.value.outcome)
        broker.answers["/topics"] = say(b"{")
        return await poll_once(poll), outcomes

    polled, outcomes = played(scenario, brokers=1)
    found = polled["broker-1:8080"]
    assert outcomes == [Outcome.BAD_ANSWER] * 2
    assert found.reported is not None
    assert found.topics_failure is not None
    assert found.topics_failure.outcome is Outcome.BAD_ANSWER


@pytest.mark.parametrize("by_an_order", [True, False])
def test_a_parser_that_hangs_is_given_up_and_replaced(by_an_order: bool) -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> dict[str, Any]:
        reader, (broker,) = poll._topics, cluster.brokers
        await poll.start()
        await reader.read(broker.url)
        (pid,) = reader._workers._processes  # type: ignore[union-attr]
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(CallFailed) as error:
            await asyncio.wait_for(poll.find_stats(broker.id, A) if by_an_order else reader.read(broker.url), 10)
        assert error.value.outcome is Outcome.TIMED_OUT
        return await reader.read(broker.url)

    assert list(played(scenario, brokers=1, topics_within_s=3.0)) == [A]


def test_a_parser_that_was_killed_while_it_had_nothing_to_do_is_replaced() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> dict[str, Any]:
        reader, (broker,) = poll._topics, cluster.brokers
        await poll.start()
        await reader.read(broker.url)
        (process,) = reader._workers._processes.values()  # type: ignore[union-attr]
        process.kill()
        await asyncio.to_thread(process.join)
        await asyncio.sleep(0.5)  # the pool notices
        with pytest.raises(CallFailed):
            await reader.read(broker.url)
        return await reader.read(broker.url)

    assert list(played(scenario, brokers=1)) == [A]


OLD_AT_ONCE = RuntimeConfiguration({"statsUpdateFrequencyInSecs": "0.001"})


def asked_topics(broker: Broker) -> int:
    return sum(path.endswith("/broker-stats/topics") for path, _ in broker.asked)


@pytest.mark.parametrize("extensible", [True, False])
def test_what_topics_told_lately_is_not_read_again(extensible: bool) -> None:
    """Also of a bundle that has moved since: its topics are the same."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> None:
        await poll.start()
        poll.with_topics = True
        await poll_once(poll)
        found = await poll.find_stats("broker-2:8080", A)
        assert found is not None
        assert found["msgRateIn"] == 100.0
        assert [asked_topics(broker) for broker in cluster.brokers] == [1, 1, 1]

    played(scenario, extensible=extensible)


@pytest.mark.parametrize("last_read", ["owner", "former owner"])
def test_a_broker_that_still_tells_of_a_bundle_it_no_longer_owns_is_not_believed(last_read: str) -> None:
    """It does so until its next statistics period, with rates of the time before; a split was cut by them."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> None:
        former, owner, _ = cluster.brokers
        first, last = (former, owner) if last_read == "owner" else (owner, former)
        owner.held = {A: 7.0, B: 1.0}
        stale = former.topics()
        former.held = {}
        former.answers["/topics"] = say(json.dumps(stale))
        told = last.answers.get("/topics", lambda broker, request: broker.topics())

        async def tell_after_the_other(broker: Broker, request: Request) -> Any:
            while poll._topics_of.get(first.id) is None:
                await asyncio.sleep(0.001)
            return told(broker, request)

        last.answers["/topics"] = tell_after_the_other
        await poll.start()
        poll.with_topics = True
        found = await poll_once(poll)
        stats = await poll.find_stats(owner.id, A)
        assert (stats or {}).get("msgRateIn") == 7.0
        reported = found[owner.id].reported
        assert reported is not None
        assert reported.report["lastStats"][A]["msgRateIn"] == 7.0

    played(scenario, extensible=True)


def test_a_bundle_that_comes_back_carries_what_was_told_of_it_last_not_what_its_owner_told_before_it_left() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[float]:
        first, other, _ = cluster.brokers
        await poll.start()
        poll.with_topics = True
        rates = []
        for owner, rate in ((first, 100.0), (other, 7.0), (first, 8.0)):
            first.held, other.held, before = {}, {B: 1.0}, dict(owner.held)
            owner.held = {**before, A: rate}
            for known in (poll._due_s, poll._topics_of):  # only the other one is read again
                known.pop(other.id, None)  # type: ignore[attr-defined]
            reported = (await poll_once(poll))[owner.id].reported
            assert reported is not None
            rates.append(reported.report["lastStats"][A]["msgRateIn"])
        return rates

    assert played(scenario, extensible=True) == [100.0, 7.0, 7.0]


def later_by(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of polls goes on."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + seconds)
    monkeypatch.setattr("controller.brokers.pulsar.poll.time", clock)


def test_topics_that_cannot_be_read_any_more_soon_tell_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[Polled]:
        (broker,) = cluster.brokers
        await poll.start()
        poll.with_topics = True
        await poll_once(poll)
        broker.answers["/topics"] = status(500)
        found = []
        for seconds in (150, 200):
            later_by(seconds, monkeypatch)
            found.append((await poll_once(poll))[broker.id])
            await poll._reading[broker.id]
        return found

    kept, old = played(scenario, brokers=1, extensible=True)
    assert kept.reported is not None
    assert kept.reported.report["lastStats"][A]["msgRateIn"] == 100.0
    assert (old.reported, old.failure and old.failure.outcome) == (None, Outcome.SERVER_ERROR)


def test_a_poll_after_a_long_pause_waits_for_new_statistics_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a recording with a line every few minutes: what was read for the line before no longer counts."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[float]:
        (broker,), rates = cluster.brokers, []

        async def tell_late(broker: Broker, request: Request) -> Any:
            await asyncio.sleep(0.3)
            return broker.topics()

        broker.answers["/topics"] = tell_late
        await poll.start()
        poll.with_topics = True
        for seconds, rate in ((0, 100.0), (300, 7.0)):
            later_by(seconds, monkeypatch)
            broker.held = {A: rate}
            reported = (await poll_once(poll))[broker.id].reported
            assert reported is not None
            rates.append(reported.report["lastStats"][A]["msgRateIn"])
        return rates

    assert played(scenario, brokers=1, extensible=True) == [100.0, 7.0]


@pytest.mark.parametrize("with_topics", [True, False])
def test_topics_of_which_nothing_fresh_is_known_are_read_of_the_owner(with_topics: bool) -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> None:
        await poll.start()
        poll.with_topics = with_topics
        await poll_once(poll)
        before = [asked_topics(broker) for broker in cluster.brokers]
        poll.configuration = OLD_AT_ONCE
        await asyncio.sleep(0.01)
        cluster.brokers[1].held = {A: 7.0, B: 1.0}
        found = await poll.find_stats("broker-2:8080", A)
        assert found is not None
        assert found["msgRateIn"] == 7.0
        assert await poll.find_stats("broker-2:8080", C) is None, "it does not tell of a bundle that it does not own"
        after = [asked_topics(broker) for broker in cluster.brokers]
        assert [now - then for now, then in zip(after, before, strict=True)] == [0, 2, 0]

    played(scenario)


def test_the_wait_for_other_brokers_topics_counts_for_those_that_are_asked_for() -> None:
    """An order waits for them, and its deadline runs."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> CallFailed:
        await poll.start()
        poll.with_topics, poll._wait_for_topics = True, False
        for broker in cluster.brokers[1:]:
            broker.answers["/topics"] = hang
        await poll_once(poll, 0.1)
        began = asyncio.get_running_loop().time()
        with pytest.raises(CallFailed) as error:
            await poll.find_stats("broker-2:8080", A)
        assert asyncio.get_running_loop().time() - began < 1.0
        return error.value

    assert played(scenario, brokers=6, topics_within_s=0.4).outcome is Outcome.TIMED_OUT


def test_the_modular_manager_s_reports_have_what_only_topics_tell_where_they_are_read() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> dict[str, Polled]:
        await poll.start()
        poll.with_topics = True
        return await poll_once(poll)

    line = line_of(played(scenario)["broker-1:8080"])
    (bundle,) = to_load_report(read_record(line, 1), Session("b", 1, "n", 1), 1, Overrides())["bundles"]
    assert (bundle["unacked"], bundle["backlog_bytes"], bundle["msg_rate_in"]) == (6, 20, 100.0)


def test_topics_that_are_too_large_are_left_out_and_nothing_else_tells_the_load_in_the_extensible_manager() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> dict[str, Polled]:
        await poll.start()
        poll.with_topics = True
        cluster.brokers[0].answers["/topics"] = say(b" " * 2_000)
        return await poll_once(poll)

    found = played(scenario, brokers=1, extensible=True, topics_max_bytes=1_024)["broker-1:8080"]
    assert found.failure is not None
    assert found.failure.outcome is Outcome.TOO_LARGE


def test_an_address_is_where_pulsar_redirects_to() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[Members, dict[str, str]]:
        return await members_of(cluster, poll), {broker.id: broker.url for broker in cluster.brokers}

    members, urls = played(scenario)
    assert members.addresses == urls
    assert members.failures == {}


@pytest.mark.parametrize("dead", [1, 2])
def test_a_dead_broker_hides_no_other(dead: int) -> None:
    """Where the broker of the service URL is, another one tells: one that answers."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[Members, dict[str, str]]:
        await cluster.brokers[dead].server.stop()
        return await members_of(cluster, poll), {broker.id: broker.url for broker in cluster.brokers}

    members, urls = played(scenario)
    assert (members.addresses, members.failures) == (urls, {})


def test_a_load_balancer_is_no_broker() -> None:
    """It answers for another broker each time; what answers directly is asked for at a broker."""

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[Members, dict[str, str]]:
        balancer, *brokers = cluster.brokers
        cluster.listed = [broker.id for broker in brokers]
        direct = brokers[0]

        def forward(_: Broker, request: Request) -> Response:
            return direct._usual(request.url.path)

        balancer.answers["/ownedNamespaces"] = forward
        return await members_of(cluster, poll), {broker.id: broker.url for broker in brokers}

    members, urls = played(scenario)
    assert members.addresses == urls


def test_a_proxy_that_follows_redirects_says_so_where_brokers_cannot_be_reached() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> CallFailed:
        proxy, *brokers = cluster.brokers
        cluster.listed = [broker.id for broker in brokers]
        proxy.answers["/ownedNamespaces"] = say(b"{}")
        with pytest.raises(CallFailed) as error:
            await poll.start()
        return error.value

    failure = played(scenario, connect_timeout_s=0.5)
    assert failure.outcome is Outcome.UNREACHABLE
    assert "--service-url" in str(failure)


def test_a_broker_that_moved_is_found_again_and_one_that_left_is_forgotten() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> list[list[str]]:
        await poll.start()
        directory, second = poll._directory, cluster.brokers[1]
        await second.server.stop()
        gone = await poll_once(poll)
        cluster.by_id[second.id] = cluster.brokers[2]  # restarted elsewhere
        cluster.brokers[2].id = second.id
        cluster.listed = [cluster.brokers[0].id, second.id]
        await directory.refresh()
        poll.members = await directory.refresh()
        back = await poll_once(poll)
        return [[name for name, polled in found.items() if polled.reported] for found in (gone, back)]

    gone, back = played(scenario)
    assert sorted(gone) == ["broker-1:8080", "broker-3:8080"]
    assert sorted(back) == ["broker-1:8080", "broker-2:8080"]


def test_nothing_is_kept_of_brokers_that_left_and_their_last_poll_is_not_disturbed() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> None:
        stays, leaves, _ = cluster.brokers
        asked, answer = asyncio.Event(), asyncio.Event()

        async def wait(broker: Broker, request: Request) -> Any:
            asked.set()
            await answer.wait()
            return broker.metrics()

        await poll.start()
        poll.with_topics = True
        await poll_once(poll)
        leaves.answers["/metrics"] = wait
        last = asyncio.create_task(poll_once(poll))
        await asked.wait()
        cluster.listed = [stays.id]
        await poll._look_up()
        answer.set()
        assert (await last)[leaves.id].reported is not None
        await poll._look_up()
        of_brokers = (poll._busy, poll._reading, poll._due_s, poll._topics_of, poll._cpu._last)
        assert [set(known) for known in of_brokers] == [{stays.id}] * len(of_brokers)
        assert set(poll.admin._clients._clients) == {stays.url}
        cluster.listed = [stays.id, leaves.id]
        await poll._look_up()
        assert (await poll_once(poll))[leaves.id].reported is not None
        assert asked_topics(leaves) == 2

    played(scenario, extensible=True)


def test_ranges_that_a_failed_split_left_outside_the_ring_are_ignored() -> None:
    whole, child = "t/n/0x00000000_0x40000000", "t/n/0x00000000_0x20000000"

    async def scenario(cluster: StandIn, poll: ClusterPoll) -> Any:
        await poll.start()
        broker = cluster.brokers[0]
        broker.held = {whole: 10.0, child: 0.0}
        hashes = ["0x00000000", "0x40000000", "0xffffffff"]
        broker.answers["/t/n/bundles"] = lambda *_: {"boundaries": hashes, "numBundles": 2}
        return (await poll_once(poll))[broker.id].reported

    assert list(played(scenario, brokers=1).report["bundles"]) == [whole]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (401, "Unauthorized to validateBothSuperuserAndBrokerOperation for originalPrincipal [null]"),  # 4.0.8
        (403, "This operation requires super-user access"),
    ],
)
def test_a_role_that_may_not_read_says_which_is_needed(code: int, words: str) -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> CallFailed:
        for broker in cluster.brokers:
            broker.answers[""] = status(code, words)
        with pytest.raises(CallFailed) as error:
            await poll.start()
        return error.value

    failure = played(scenario, brokers=1)
    assert failure.outcome is Outcome.FORBIDDEN
    assert "takes a super-user role" in str(failure)
    assert str(code) in str(failure)


def test_without_the_configuration_the_only_cluster_is_meant() -> None:
    async def scenario(cluster: StandIn, poll: ClusterPoll) -> tuple[str, Manager | None, float]:
        for broker in cluster.brokers:
            broker.answers["/configuration/runtime"] = status(403)
        await poll.start()
        return poll.cluster, poll.manager, poll.configuration.stats_period_s

    assert played(scenario, extensible=True) == (CLUSTER, Manager.EXTENSIBLE, 60.0)
