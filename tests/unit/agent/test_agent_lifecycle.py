"""The life of an agent's run: the first end counts, failures end it, and nothing outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from controller.agent import lifecycle
from controller.agent.lifecycle import AGAIN, BROKEN, LOST, OK, Ending, Lifecycle
from controller.agent.session.registration import Standing, Verdict
from controller.testbed.units import AGENT, final_codes

_T = TypeVar("_T")


class Connections:
    """Keeps what a reader was made with."""

    def reader(self, topics: list[str], take: Any, on_failure: Any) -> Any:
        self.topics, self.on_failure = topics, on_failure
        return self


def lived(scenario: Callable[[Lifecycle, Connections], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        connections = Connections()
        life = Lifecycle(connections)  # type: ignore[arg-type]
        life.begin()
        return await scenario(life, connections)

    return asyncio.run(run())


def test_the_first_end_counts() -> None:
    async def scenario(life: Lifecycle, _: Connections) -> tuple[bool, Ending]:
        before = life.has_ended
        life.end(LOST, "replaced")
        life.end(OK, "left")
        life.fail(ValueError("late"))
        return before, await life.ending()

    assert lived(scenario) == (False, Ending(LOST, "replaced"))


@pytest.mark.parametrize(("standing", "code"), [(Standing.LOST, LOST), (Standing.OUTRUN, AGAIN)])
def test_only_who_gives_way_to_a_newer_process_ends_for_good(standing: Standing, code: int) -> None:
    """One with the same incarnation may be dead, and this process the only one that lives."""

    async def scenario(life: Lifecycle, _: Connections) -> Ending:
        life.give_way(Verdict(standing, "replaced"))
        return await life.ending()

    ending = lived(scenario)
    assert ending == Ending(code, "replaced")
    assert (ending.code in final_codes(AGENT)) is (standing is Standing.LOST)


def test_a_task_that_fails_ends_the_run_as_broken() -> None:
    async def scenario(life: Lifecycle, _: Connections) -> Ending:
        async def fail() -> None:
            raise ValueError("an invariant")

        life.start(fail())
        return await life.ending()

    assert lived(scenario) == Ending(BROKEN, "ValueError: an invariant")


def test_a_reader_that_fails_in_its_thread_ends_the_run_as_broken() -> None:
    async def scenario(life: Lifecycle, connections: Connections) -> Ending:
        life.open_reader(["feed"], lambda records: None)
        await asyncio.to_thread(connections.on_failure, OSError("Kafka is gone"))
        return await life.ending()

    assert lived(scenario) == Ending(BROKEN, "OSError: Kafka is gone")


def test_what_was_started_ends_with_the_run_also_what_starts_while_it_ends() -> None:
    async def scenario(life: Lifecycle, _: Connections) -> list[bool]:
        late: list[asyncio.Task[None]] = []

        async def wait() -> None:
            await asyncio.Event().wait()

        async def start_another() -> None:
            try:
                await wait()
            finally:
                late.append(life.start(wait()))

        tasks = [life.start(start_another()), life.start(wait())]
        await asyncio.sleep(0)
        await life.stop()
        return [task.cancelled() for task in (*tasks, *late)]

    assert lived(scenario) == [True, True, True]


def test_a_cancellation_that_was_swallowed_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.wait_for` swallows one that comes with its result, before Python 3.12; the agent would never exit."""
    monkeypatch.setattr(lifecycle, "CANCEL_AGAIN_S", 0.05, raising=False)

    async def scenario(life: Lifecycle, _: Connections) -> None:
        swallowed = asyncio.Event()

        async def goes_on() -> None:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                swallowed.set()
            await asyncio.sleep(3_600)

        life.start(goes_on())
        await asyncio.sleep(0)
        await asyncio.wait_for(life.stop(), 10)
        assert swallowed.is_set()

    lived(scenario)
