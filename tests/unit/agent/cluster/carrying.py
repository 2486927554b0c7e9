"""Carries an order out as the agent's executor does, with calls that a cluster answers over HTTP."""

from __future__ import annotations

from collections.abc import Callable

from controller.agent.cluster import orders as ask
from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.orders import Ended, carry_out
from controller.domain.observed import Order


async def carry(
    order: Order, calls: PulsarCalls, modular: bool, before_the_request: Callable[[], None] = lambda: None
) -> Ended:
    """`before_the_request`: what happens between the last look at the owner and the first unload."""
    run, answer, happened = carry_out(order, modular), None, False
    while True:
        try:
            call = run.send(answer)
        except StopIteration as stop:
            ended: Ended = stop.value
            return ended
        if isinstance(call, ask.Unload) and not happened:
            happened = True
            before_the_request()
        answer = await calls.answer(call)
