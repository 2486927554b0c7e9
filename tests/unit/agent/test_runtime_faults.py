"""What becomes of a session when the runtime hangs, or raises what it should not."""

from __future__ import annotations

import asyncio

import pytest

from controller.agent.handover import driver
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from tests.unit.agent.agent_world import WHOLE
from tests.unit.agent.session_stage import A, B, SessionStage, settle
from tests.unit.agent.test_agent_session import SlowToStop, StubbornRuntime, leave_too_late, play

# ---------------------------------------------------------------- a call that does not end


@pytest.fixture
def short_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a drop may take at most is over at once."""
    monkeypatch.setattr(driver, "DROP_LIMIT_MS", 20)


@pytest.mark.usefixtures("short_drops")
def test_a_drop_that_hangs_ends_the_process_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Seen in a service: it registered no more, said nothing, and could not be asked to leave."""

    async def scenario(stage: SessionStage) -> None:
        await stage.own()
        stage.sessions.end("lease")
        while not stage.stuck:
            await asyncio.sleep(0.01)
        assert [f"dropping {WHOLE} hangs" in text for text in stage.stuck] == [True]
        assert f"dropping {WHOLE} hangs" in caplog.text
        assert (stage.sessions.current, stage.sessions.over) == (A, True), "no further session"
        stage.departure.ask()
        assert await stage.departure.depart(stage.sessions) == "left without a registered session"
        assert "goodbye" not in stage.outbox.kinds()

    play(scenario, SlowToStop())


@pytest.mark.usefixtures("short_drops")
def test_a_broker_whose_last_drop_hangs_says_no_goodbye() -> None:
    async def scenario(stage: SessionStage) -> None:
        await leave_too_late(stage)
        assert [f"dropping {WHOLE} hangs" in text for text in stage.stuck] == [True]
        assert "goodbye" not in stage.outbox.kinds()

    play(scenario, SlowToStop())


@pytest.mark.usefixtures("short_drops")
def test_cancelled_work_that_goes_on_for_ever_ends_the_process_too() -> None:
    """It may begin to serve at any time."""

    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        stage.sessions.end("lease")
        while not stage.stuck:
            await asyncio.sleep(0.01)
        assert [f"call of the runtime for {WHOLE} hangs" in text for text in stage.stuck] == [True]
        assert stage.sessions.current == A
        runtime.answered.set()

    runtime = StubbornRuntime()
    play(scenario, runtime)


@pytest.mark.usefixtures("short_drops")
def test_a_drop_that_hangs_within_a_session_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        own = stage.journal.own
        await stage.read(own(State.ASSIGNING, 1, to=B), own(State.OWNED, 1, by=B), own(State.TRANSFERRING, 2, B, A))
        assert stage.runtime.held == {WHOLE}
        await stage.read(own(State.OWNED, 3, by=B))
        while "Drop" not in caplog.text:
            await asyncio.sleep(0.01)
        runtime.may_stop.set()
        stage.now_ms += 1_000
        stage.driver.tick()
        await settle()
        assert stage.runtime.held == set()

    runtime = SlowToStop()
    play(scenario, runtime)


class Hanging(MemoryRuntime):
    async def serve(self, bundle: Bundle, epoch: int) -> None:
        await asyncio.Event().wait()


def test_a_serve_that_hangs_is_named_once_the_journal_gives_the_bundle_to_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        own = stage.journal.own
        await stage.read(own(State.ASSIGNING, 1, to=A))
        stage.now_ms += 5_000
        await stage.read(own(State.RELEASING, 2, A, B))  # after the controller's deadline
        assert f"serve of {WHOLE}: cancelled after 5.0 s" in caplog.text
        assert stage.outbox.kinds() == ["released"]

    play(scenario, Hanging(MemoryFences()))


def test_a_serve_that_raises_a_cancellation_of_its_own_is_named_and_tried_again_after_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At once and again and again otherwise: the loop would do nothing else, and nobody would learn of it."""

    class Cancelled(MemoryRuntime):
        calls = 0

        async def serve(self, bundle: Bundle, epoch: int) -> None:
            self.calls += 1
            if self.calls == 1:
                raise asyncio.CancelledError
            await super().serve(bundle, epoch)

    runtime = Cancelled(MemoryFences())

    async def scenario(stage: SessionStage) -> None:
        await stage.register()
        await stage.read(stage.journal.own(State.ASSIGNING, 1, to=A))
        assert f"serve of {WHOLE} was cancelled, by the runtime itself" in caplog.text
        assert runtime.calls == 1
        stage.now_ms += 1_000
        stage.driver.tick()
        await settle()
        assert stage.outbox.kinds() == ["serving"]

    play(scenario, runtime)
