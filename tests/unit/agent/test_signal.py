"""Signals: who waits goes on once one is set, or after the limit, and nobody is left behind."""

from __future__ import annotations

import asyncio

import pytest

from controller.agent.signal import Signal


async def until_waiting() -> None:
    await asyncio.sleep(0)


def test_whoever_waits_goes_on_once_it_is_set() -> None:
    async def run() -> list[bool]:
        signal = Signal()
        waiting = [asyncio.ensure_future(signal.wait(60)) for _ in range(2)]
        await until_waiting()
        signal.set()
        return await asyncio.gather(*waiting, signal.wait(60))

    assert asyncio.run(run()) == [True, True, True]


def test_the_limit_ends_a_wait() -> None:
    assert asyncio.run(Signal().wait(0)) is False


def test_a_cleared_signal_is_waited_for_again() -> None:
    async def run() -> bool:
        signal = Signal()
        signal.set()
        signal.clear()
        return await signal.wait(0)

    assert asyncio.run(run()) is False


def test_waking_lets_those_go_on_who_wait_now() -> None:
    async def run() -> list[bool]:
        signal = Signal()
        waiting = asyncio.ensure_future(signal.wait(60))
        await until_waiting()
        signal.wake()
        return [await waiting, await signal.wait(0)]

    assert asyncio.run(run()) == [True, False]


def test_a_wait_that_is_cancelled_is_forgotten() -> None:
    async def run() -> bool:
        signal = Signal()
        waiting = asyncio.ensure_future(signal.wait(60))
        await until_waiting()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        signal.set()
        return await signal.wait(60)

    assert asyncio.run(run()) is True
