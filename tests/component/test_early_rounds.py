"""Rounds before their time, by the real worker on real tables: what brings one about, what it sees, what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.domain.decision import MOVES, RoundResult
from controller.domain.entries import Kind
from controller.domain.events import RoundFinished
from controller.service.rounds.process import Rounds
from tests.short_run import ShortRun

BROKERS = ("b1:8080", "b2:8080", "b3:8080")
USUAL = 600.0  # messages/s
COMMON = (
    "rounds.mode=live", "split.max_msg_rate_per_s=1000000", "rounds.round_interval_s=60",
    "loads.pane_s=10", "loads.short_horizon_s=60", "shedding.grace_period_minutes=5",
)  # fmt: skip


class Clock:
    """Panes pass one by one; the worker runs what is due, and its results are journaled."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        self.run = ShortRun(folder, overrides=(*COMMON, *overrides))
        for broker in BROKERS:
            self.run.join(broker)
        self.run.command("create_namespace", namespace="t/n", bundles=24)
        self.run.look_up(*self.run.state.namespaces["t/n"])
        self.run.command("mode", mode="live")
        self.run.load.rates = {str(b): USUAL for b in self.run.state.namespaces["t/n"]}
        self.rounds = Rounds(self.run.settings, every_round=False)
        self.done: list[RoundResult] = []

    def pass_panes(self, count: int) -> list[RoundResult]:
        """The rounds of so many panes."""
        before = len(self.done)
        for _ in range(count):
            self.run.panes(1)
            found = self.rounds.advance()
            if found is not None:
                self.run.batch(*map(RoundFinished, found.results))
                self.run.settle()
                self.done.append(found.results[0])
        return self.done[before:]

    def to_next_round(self) -> RoundResult:
        """Until a usual round has been run."""
        while True:
            for found in self.pass_panes(1):
                if found.early is None:
                    return found

    def heat(self, broker: str, times: float) -> list[str]:
        """Half of a broker's bundles get so many times the load."""
        hot = self.run.owned_by(broker)[::2]
        self.run.load.rates |= dict.fromkeys(hot, times * USUAL)
        return hot


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    made = Clock(tmp_path / "tables")
    for _ in range(4):
        made.to_next_round()
    return made


def moves_of(result: RoundResult) -> list[tuple[str | None, str | None]]:
    return [(one.source, one.bundle) for one in result.decisions if one.kind in MOVES]


def test_a_round_comes_early_once_a_shift_has_lasted_two_panes(clock: Clock) -> None:
    assert all(result.early is None for result in clock.done), "even load brings no early round"
    learned = clock.done[-1].usage_hash
    hot = clock.heat("b1:8080", 3)
    assert clock.pass_panes(1) == [], "one pane may be a hiccup"
    (early,) = clock.pass_panes(2)
    assert early.early is not None
    assert early.early["shifted_to"] == "b1:8080"
    assert early.early["above_pct"] > 40 > 10 > early.early["before_pct"]
    assert early.at_ms % 60_000, "between two usual rounds"
    assert {source for source, _ in moves_of(early)} == {"b1:8080"}
    assert {bundle for _, bundle in moves_of(early)} & set(hot)
    assert early.usage_hash == learned, "an early round learns nothing"
    (entry,) = [e for e in clock.run.entries if e.kind is Kind.ROUND and "early" in e.data]
    assert entry.data["early"] == early.early
    assert entry.data["round_id"].endswith("-early")


def test_it_sees_the_load_since_the_shift_and_so_does_the_round_after_it(clock: Clock) -> None:
    clock.heat("b1:8080", 3)
    found = clock.pass_panes(3)
    (early,) = [one for one in found if one.early is not None]
    usual = clock.to_next_round()
    for result in (early, usual):
        seen = {str(row["broker"]): row for row in result.scores}
        assert len(seen) == 3
    assert moves_of(early)
    assert not moves_of(usual), "an average over both times would have taken the hot broker for a cold one"


def test_nothing_comes_early_within_the_least_interval_or_where_it_is_off(tmp_path: Path, clock: Clock) -> None:
    clock.heat("b1:8080", 3)
    early = [one for one in clock.pass_panes(4) if one.early is not None]
    assert len(early) == 1, "the same shift is no reason for another one"
    off = Clock(tmp_path / "off", "rounds.least_interval_s=0")
    for _ in range(4):
        off.to_next_round()
    off.heat("b1:8080", 3)
    assert off.pass_panes(4) == []


def test_a_strategy_that_counts_rounds_is_not_asked_early(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "tables", "rounds.strategy=headroom", "rounds.challengers=steady")
    for _ in range(4):
        clock.to_next_round()
    clock.heat("b1:8080", 3)
    assert clock.pass_panes(4) == []
    clock.run.command("strategy", strategy="steady", challengers=["headroom"])
    clock.heat("b2:8080", 3)
    kept = clock.run.state.round_memory.get("headroom")
    assert kept
    found = clock.pass_panes(6)
    assert any(one.early is not None for one in found)
    early = next(one for one in found if one.early is not None)
    assert early.memory["headroom"] == kept, "who was not asked keeps its memory"


def test_a_broker_that_joins_or_leaves_is_no_shift(clock: Clock) -> None:
    clock.run.join("b4:8080")
    assert [one for one in clock.pass_panes(4) if one.early is not None] == []
