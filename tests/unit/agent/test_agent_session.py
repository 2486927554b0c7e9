"""A session from its last valid moment to the next one, and a broker that leaves: what is done in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller.agent.session.session import CUT_OFF, LOOK_AGAIN_S
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.domain.entries import Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from tests.unit.agent.agent_world import WHOLE
from tests.unit.agent.session_stage import LEASE_MS, LEAVE_MS, A, B, SessionStage, settle

DROP = ("drop", str(WHOLE), 1)


def play(scenario: Callable[[SessionStage], Awaitable[None]], runtime: MemoryRuntime | None = None) -> None:
    async def run() -> None:
        await scenario(SessionStage(runtime))

    asyncio.run(run())


class StubbornRuntime(MemoryRuntime):
    """Its `serve` waits for the store's answer, and serves even where it was cancelled: the request is on its way."""

    def __init__(self) -> None:
        super().__init__(MemoryFences())
        self.answered = asyncio.Event()

    async def serve(self, bundle: Bundle, epoch: int) -> None:
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            await self.answered.wait()
        await super().serve(bundle, epoch)


# ---------------------------------------------------------------- between the end of the lease and its next check


@pytest.mark.covers("ownership-ends-with-session")
def test_nothing_is_done_once_the_lease_has_expired_though_nobody_has_looked_yet() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        stage.now_ms = stage.sessions.lease.until_ms
        assert not stage.sessions.may_act()
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        stage.publisher.event("leaving")
        assert stage.publisher.serving("inventory", {}) is None
        assert (stage.runtime.serving(), stage.outbox.kinds()) == ({}, [])

    play(scenario)


def test_the_last_moment_of_the_lease_counts() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        stage.now_ms = stage.sessions.lease.until_ms - 1
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        assert (stage.runtime.serving(), stage.outbox.kinds()) == ({WHOLE: 1}, ["serving"])

    play(scenario)


def test_work_that_was_begun_in_time_is_not_answered_after_the_lease() -> None:
    runtime = StubbornRuntime()

    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        stage.now_ms = stage.sessions.lease.until_ms
        runtime.answered.set()
        await settle()
        assert stage.outbox.kinds() == []

    play(scenario, runtime)


def test_an_answer_is_not_repeated_after_the_lease() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        stage.now_ms = stage.sessions.lease.until_ms
        stage.driver.tick()
        assert stage.outbox.kinds() == ["serving"]

    play(scenario)


def test_an_acknowledgement_between_the_end_and_the_check_does_not_save_the_session() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        stage.sessions.send_heartbeat()
        stage.now_ms = stage.sessions.lease.until_ms
        await stage.acknowledge()
        stage.sessions.check_lease()
        await settle()
        assert (stage.sessions.current.number, stage.runtime.serving()) == (2, {})

    play(scenario)


def test_a_session_that_is_registered_after_its_lease_never_acts() -> None:
    async def scenario(stage: SessionStage) -> None:
        stage.sessions.send_heartbeat()
        stage.now_ms += LEASE_MS
        await stage.read(stage.journal.register(A))
        assert (stage.sessions.registered, stage.sessions.current.number) == (False, 2)

    play(scenario)


# ---------------------------------------------------------------- the end of a session


def test_everything_is_dropped_before_the_next_sessions_first_heartbeat() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        stage.now_ms = stage.sessions.lease.until_ms
        stage.sessions.check_lease()
        stage.sessions.send_heartbeat()  # due while the session ends: not sent
        await settle()
        assert stage.log == [DROP, ("sent", "heartbeat", 2)]

    play(scenario)


def test_bundles_are_dropped_in_the_order_in_which_they_came() -> None:
    eighths = [
        Bundle("t/m", eighth.lower, eighth.upper)
        for half in WHOLE.split_at(WHOLE.middle())
        for quarter in half.split_at(half.middle())
        for eighth in quarter.split_at(quarter.middle())
    ]
    bundles = [*eighths[5:], *eighths[:5]]

    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        ring = {"namespace": "t/m", "bundles": sorted(map(str, bundles))}
        await stage.read(stage.journal.add(Kind.NAMESPACE_CREATED, data=ring))
        for bundle in bundles:
            await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A, bundle=bundle))
        stage.log.clear()
        stage.sessions.end("lease")
        await settle()
        assert stage.log[:-1] == [("drop", str(bundle), 1) for bundle in bundles]

    play(scenario)


def test_what_cancelled_work_has_begun_to_serve_is_dropped_too() -> None:
    """The first drop finds nothing to drop; the cancelled call then serves the bundle all the same."""
    runtime = StubbornRuntime()

    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        stage.sessions.end("lease")
        await settle()
        assert stage.sessions.current == A, "the next session waits for the call"
        runtime.answered.set()
        await settle()
        assert (runtime.serving(), stage.lost) == ({}, [])
        assert stage.log[-3:] == [("serve", str(WHOLE), 1), DROP, ("sent", "heartbeat", 2)]

    play(scenario, runtime)


def test_a_process_that_was_replaced_while_a_session_ended_begins_no_other_one() -> None:
    class Slow(MemoryRuntime):
        stopped = asyncio.Event()

        async def drop(self, bundle: Bundle) -> None:
            await self.stopped.wait()
            await super().drop(bundle)

    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        sent = len(stage.outbox.heartbeats)
        stage.sessions.end("lease")
        await stage.read(stage.journal.register(A._replace(incarnation=A.incarnation + 1, nonce="newer")))
        runtime.stopped.set()
        await settle()
        assert (len(stage.lost), stage.sessions.over, stage.runtime.serving()) == (1, True, {})
        assert len(stage.outbox.heartbeats) == sent, "not even a heartbeat"

    runtime = Slow(MemoryFences())
    play(scenario, runtime)


class Unstoppable(MemoryRuntime):
    async def drop(self, bundle: Bundle) -> None:
        raise OSError("the bundle's files cannot be closed")


def test_a_runtime_that_cannot_stop_ends_the_process_instead_of_the_session() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        stage.sessions.end("lease")
        await settle()
        assert ["goes on serving" in text for text in stage.stuck] == [True]
        assert stage.lost == [], "no other process is this broker, so the supervisor may start the next one"
        assert stage.sessions.current == A, "no further session, which would be granted bundles"
        assert stage.sessions.over

    play(scenario, Unstoppable(MemoryFences()))


def test_a_session_that_cannot_follow_the_journal_is_deregistered_and_followed_by_none_until_it_can() -> None:
    """Its heartbeats still arrive, so the controller would keep the session alive and grant it bundles."""

    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        stage.hears = False
        stage.sessions.end(CUT_OFF)
        await settle()
        await asyncio.sleep(2 * LOOK_AGAIN_S)
        assert stage.log == [DROP, ("sent", "goodbye", 1)]
        stage.hears = True
        while stage.sessions.current == A:
            await asyncio.sleep(LOOK_AGAIN_S / 10)
        assert stage.log == [DROP, ("sent", "goodbye", 1), ("sent", "heartbeat", 2)]

    play(scenario)


@pytest.mark.parametrize("newer", [A._replace(incarnation=2, nonce="other"), A._replace(incarnation=3, nonce="third")])
def test_a_process_that_was_replaced_says_nothing_more(newer: Session) -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        await stage.read(stage.journal.register(newer))
        assert ["replaced by the newer process" in verdict.text for verdict in stage.lost] == [True]
        stage.sessions.send_heartbeat()
        stage.driver.tick()
        assert not stage.sessions.may_act()
        await stage.sessions.finish()
        assert stage.log == [DROP]

    play(scenario)


class SlowToStop(MemoryRuntime):
    """Its `drop` takes until the test lets it end."""

    def __init__(self) -> None:
        super().__init__(MemoryFences())
        self.may_stop = asyncio.Event()

    async def drop(self, bundle: Bundle) -> None:
        await self.may_stop.wait()
        await super().drop(bundle)


def test_a_process_that_is_replaced_while_it_drops_says_no_goodbye() -> None:
    """Seed 5186 of the simulation: nobody waits for it any more, and who was replaced is to say nothing."""
    runtime = SlowToStop()

    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        stage.sessions.end(CUT_OFF)
        await stage.read(stage.journal.register(A._replace(incarnation=2, nonce="other")))
        runtime.may_stop.set()
        await settle()
        assert (stage.log, len(stage.lost)) == ([DROP], 1)

    play(scenario, runtime)


def test_a_leaving_process_that_is_replaced_while_it_drops_says_no_goodbye() -> None:
    runtime = SlowToStop()

    async def scenario(stage: SessionStage) -> None:
        leaving = await begin_to_leave_too_late(stage)
        await settle()
        assert stage.sessions.over, "its time is over, and it drops what is left"
        await stage.read(stage.journal.register(A._replace(incarnation=2, nonce="other")))
        runtime.may_stop.set()
        await leaving
        assert "goodbye" not in stage.outbox.kinds()

    play(scenario, runtime)


# ---------------------------------------------------------------- leaving


@pytest.mark.covers("broker-leaves")
def test_a_broker_that_gave_everything_away_deregisters() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        leaving = asyncio.create_task(stage.departure.depart(stage.sessions))
        stage.departure.ask()
        await settle()
        assert stage.outbox.kinds() == ["leaving"]
        await stage.read(stage.journal.leave(A))
        await stage.read(stage.journal.own(State.TRANSFERRING, 2, A, B))
        await stage.read(stage.journal.own(State.RELEASING, 2, A, B))
        stage.changes.wake()
        await settle()
        assert stage.runtime.serving() == {}
        assert not leaving.done(), "the journal still names it: its `released` may be lost"
        await stage.read(stage.journal.own(State.OWNED, 2, by=B))
        assert await leaving == "left"
        assert [said for said in stage.outbox.kinds() if said != "leaving"] == ["released", "goodbye"]

    play(scenario)


async def begin_to_leave_too_late(stage: SessionStage) -> asyncio.Task[str]:
    """It owns a bundle that nobody takes, its lease goes on, and its time is over; the task returns how it left."""
    await stage.own()
    leaving = asyncio.create_task(stage.departure.depart(stage.sessions))
    stage.departure.ask()
    await settle()
    stage.now_ms += LEAVE_MS
    stage.sessions.lease.renew(stage.now_ms, stage.sessions.lease.until_ms - 1)  # its heartbeats went on
    stage.changes.wake()
    return leaving


async def leave_too_late(stage: SessionStage) -> str:
    return await (await begin_to_leave_too_late(stage))


def test_a_broker_that_runs_out_of_time_drops_before_it_deregisters() -> None:
    """Its goodbye frees the bundles at once, so another broker may serve them before the drop."""

    async def scenario(stage: SessionStage) -> None:
        assert "others now take over" in await leave_too_late(stage)
        assert stage.log == [("sent", "leaving", 1), DROP, ("sent", "goodbye", 1)]

    play(scenario)


@pytest.mark.parametrize("alone", [True, False], ids=["nobody else is there", "the other one leaves too"])
def test_the_last_broker_that_leaves_does_not_say_that_others_take_over(alone: bool) -> None:
    async def scenario(stage: SessionStage) -> None:
        leaving = await begin_to_leave_too_late(stage)
        if alone:
            stage.journal.add(Kind.SESSION_ENDED, broker=B.broker, session=str(B), reason="lease")
        else:
            stage.journal.leave(B)
        assert "with bundles that nobody takes over until a broker is there" in await leaving

    play(scenario)


def test_a_broker_that_leaves_and_cannot_stop_says_no_goodbye_and_may_be_started_again() -> None:
    """Its goodbye would free bundles that it goes on serving, until the process has ended."""

    async def scenario(stage: SessionStage) -> None:
        await leave_too_late(stage)
        assert ["goes on serving" in text for text in stage.stuck] == [True]
        assert "goodbye" not in stage.outbox.kinds()

    play(scenario, Unstoppable(MemoryFences()))


def test_a_broker_whose_lease_expired_while_it_left_says_no_goodbye() -> None:
    """Its session is over, and the goodbye of an ended session would be refused."""

    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        leaving = asyncio.create_task(stage.departure.depart(stage.sessions))
        stage.departure.ask()
        await settle()
        stage.now_ms = stage.sessions.lease.until_ms
        stage.sessions.check_lease()
        stage.changes.wake()
        assert await leaving == "left without a registered session"
        assert stage.log == [("sent", "leaving", 1), DROP]

    play(scenario)


def test_nothing_is_sent_after_the_goodbye() -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        stage.departure.ask()
        await stage.read(stage.journal.leave(A))
        assert await stage.departure.depart(stage.sessions) == "left"
        before = list(stage.log)
        stage.sessions.send_heartbeat()
        stage.sessions.check_lease()
        stage.driver.tick()
        await settle()
        assert (stage.log, before[-1]) == (before, ("sent", "goodbye", 1))

    play(scenario)
