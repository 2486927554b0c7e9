"""Moves that a limit on open orders kept back are decided anew before the next round's time, once there is room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.config.load import load_settings
from controller.domain.decision import RoundResult
from controller.domain.ids import Bundle
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs
from controller.policy.usage.model import UsageModel
from controller.service.rounds.early import EarlyRounds
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver
from tests.unit.control.step_driver import with_settings
from tests.unit.control.test_order_rounds import decision

AT_MS = 10_000_000
SETTLED_MS = 15_000  # two periods of statistics and a poll
NO_LOADS: dict[str, Any] = {}


class Story:
    """A controller that lets one broker take part in one open order, and what its round worker knows."""

    def __init__(self, folder: Path, mode: str = "live") -> None:
        limit = "pulsar_cluster.orders_per_broker=1"
        self.early = EarlyRounds(
            load_settings(None, "demo", [f"tables.root={folder}", limit], env={}), TableRoot(folder)
        )
        self.driver: ObservedDriver = observed_driver(with_settings(orders_per_broker=1))
        if mode != "live":
            self.driver.command("mode", mode=mode)

    def decide(self, *moves: tuple[Bundle, str]) -> None:
        """A round with these moves, and what the journal then tells."""
        wanted = tuple(decision(self.driver, bundle, target) for bundle, target in moves)
        result = RoundResult(f"r{AT_MS}", AT_MS, self.driver.state.seq, "steady", wanted, (), {}, "hash")
        inputs = RoundInputs("r", AT_MS, self.driver.state, NO_LOADS, NO_LOADS)
        self.early.note_computed(inputs, UsageModel(), result)
        before = len(self.driver.journal)
        self.driver.round(result)
        for entry in self.driver.journal[before:]:
            self.early.note_entry(entry)
        self.early.note_journaled(self.driver.state)

    def look(self, after_ms: int) -> dict[str, Any] | None:
        found = self.early.find_kept_back(AT_MS + after_ms, self.driver.state)
        return None if found is None else dict(found.data)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_move_beyond_the_limit_brings_a_round_once_its_brokers_have_settled(story: Story) -> None:
    story.decide((BUNDLES[0], "b:1"), (BUNDLES[3], "c:1"))
    assert list(story.driver.state.observed.orders) == [str(BUNDLES[0])]
    assert story.look(20_000) is None, "the order is open"
    story.driver.end_order(BUNDLES[0], "moved", owner="b:1", ended_at_ms=AT_MS + 10_000)
    settled_ms = story.driver.state.observed.settled_at_ms["a:1"] + SETTLED_MS - AT_MS
    assert story.look(settled_ms - 1) is None, "its source is not judged yet"
    assert story.look(settled_ms) == {"kept_back": 1}


def test_a_round_whose_moves_all_began_brings_none(story: Story) -> None:
    story.decide((BUNDLES[0], "b:1"))
    story.driver.end_order(BUNDLES[0], "moved", owner="b:1", ended_at_ms=AT_MS + 1_000)
    assert story.look(60_000) is None


def test_what_another_obstacle_kept_back_brings_none(story: Story) -> None:
    story.driver.tell("b:1", "fact", key="suspect:b:1", value={"since_ms": 1})
    story.decide((BUNDLES[0], "b:1"))
    assert not story.driver.state.observed.orders
    assert story.look(60_000) is None


def test_in_shadow_nothing_was_kept_back_by_orders(tmp_path: Path) -> None:
    story = Story(tmp_path, mode="shadow")
    story.decide((BUNDLES[0], "b:1"), (BUNDLES[3], "c:1"))
    assert story.look(60_000) is None


def test_the_next_round_takes_the_place_of_what_waited(story: Story) -> None:
    story.decide((BUNDLES[0], "b:1"), (BUNDLES[3], "c:1"))
    story.driver.end_order(BUNDLES[0], "moved", owner="b:1", ended_at_ms=AT_MS + 1_000)
    assert story.look(60_000) is not None
    story.decide()
    assert story.look(60_000) is None
