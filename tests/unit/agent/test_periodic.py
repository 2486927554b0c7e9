"""Periodic calls: their rate, their end, their failure; in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from controller.agent.periodic import run_periodically
from controller.testbed.simulated.network import SimNetwork
from controller.testbed.simulated.virtual_loop import VirtualLoop
from controller.testbed.simulated.world import World


def test_calls_come_at_once_and_at_a_fixed_rate_and_missed_ones_are_skipped() -> None:
    world = World(1)
    loop, began_ms = VirtualLoop(SimNetwork(world), "agent"), world.now_ms
    calls: list[int] = []
    task = loop.create_task(run_periodically(100, lambda: calls.append(round(world.now_ms - began_ms))))
    world.run(250)
    loop.paused_until_ms = world.now_ms + 1_000
    world.run(1_210)
    assert calls == [0, 100, 200, 1_250, 1_250, 1_350, 1_450]
    task.cancel()
    world.run(500)
    assert len(calls) == 7
    assert task.cancelled()
    loop.close()


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_call_that_fails_ends_it(fails_at: int) -> None:
    calls = 0

    def act() -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        asyncio.run(asyncio.wait_for(run_periodically(1, act), 5))
    assert calls == fails_at
