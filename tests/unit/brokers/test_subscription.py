"""Acknowledgements on the broker: what moves its copy of the cursor, and what it stores."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.subscription import Subscription
from controller.brokers.reference.wire import SubscriptionType


def subscription(mark: int, ranges: list[tuple[int, int]], end: int = 20) -> Subscription:
    """A subscription of a topic that ends at `end`; of the topic, `accept` asks for nothing else."""
    topic: Any = SimpleNamespace(next_offset=end)
    return Subscription(topic, "s", SubscriptionType.EXCLUSIVE, Cursor(mark, ranges))


@pytest.mark.parametrize("below", [0, 3, 4, 5])
def test_a_late_cumulative_acknowledgement_changes_and_stores_nothing(below: int) -> None:
    found = subscription(5, [(7, 9)])
    me: Any = object()
    assert found.accept(me, [], below) == ([], [])
    assert (found.cursor.mark, found.cursor.ranges) == (5, [(7, 9)])


def test_a_cumulative_acknowledgement_is_stored_as_the_range_that_it_adds() -> None:
    found = subscription(5, [(7, 9)])
    me: Any = object()
    assert found.accept(me, [(12, 13)], 8) == ([(12, 13), (5, 8)], [])
    assert (found.cursor.mark, found.cursor.ranges) == (9, [(12, 13)])


def test_nothing_beyond_the_end_is_acknowledged() -> None:
    found = subscription(5, [])
    me: Any = object()
    assert found.accept(me, [(18, 25)], None) == ([(18, 20)], [(20, 25)])
    assert found.accept(me, [], 30) == ([(5, 20)], [(20, 30)])


def test_what_is_pending_with_another_consumer_is_refused() -> None:
    found = subscription(5, [])
    me: Any = object()
    other: Any = object()
    found.pending = {5: me, 6: other, 7: me}
    assert found.accept(me, [(5, 8)], None) == ([(5, 6), (7, 8)], [(6, 7)])
    assert found.pending == {6: other}
    assert (found.cursor.mark, found.cursor.ranges) == (6, [(7, 8)])
