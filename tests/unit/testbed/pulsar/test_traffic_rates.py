"""The producer of the traffic sends at the rate that it is told, also less than once a second."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from controller.process.clock import boot_ms
from controller.testbed.pulsar.traffic.producer_program import TopicSender


class Producer:
    """Takes messages."""

    def __init__(self) -> None:
        self.sent = 0

    def send_async(self, message: bytes, on_answer: Any) -> None:
        self.sent += 1


@pytest.mark.parametrize("rate_per_s", [0.25, 0.9, 7.0])
def test_rates_hold(rate_per_s: float) -> None:
    producer, opening = Producer(), Future[Any]()
    opening.set_result(producer)
    sender = TopicSender(opening, None, 100)
    sender.rate_per_s = rate_per_s
    began_ms = boot_ms()
    for at_ms in range(began_ms, began_ms + 60_001, 50):
        sender.send_due(at_ms)
    assert producer.sent == pytest.approx(60 * rate_per_s, abs=1)
