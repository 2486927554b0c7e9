"""Early rounds, by the real worker on real tables: what brings one about, what it sees, what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.domain.decision import EARLY, MOVES, RoundResult
from controller.domain.entries import Kind
from controller.domain.events import RoundFinished
from controller.domain.load import RESOURCES
from controller.domain.ownership import State
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
from controller.policy.view.frame import Frame
from controller.service.rounds import shifts
from controller.service.rounds.next_round import plan_next_round
from controller.service.rounds.process import Rounds
from tests.short_run import ShortRun
from tests.short_run_load import LIMITS

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
        for _ in range(3):
            self.to_next_round()

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
                if not is_early(found):
                    return found

    def heat(self, broker: str, times: float) -> list[str]:
        """Half of a broker's bundles get so many times the load."""
        hot = self.run.owned_by(broker)[::2]
        self.run.load.rates |= dict.fromkeys(hot, times * USUAL)
        return hot


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "tables")


def is_early(result: RoundResult) -> bool:
    return result.round_id.endswith(EARLY)


def moves_of(result: RoundResult) -> list[tuple[str | None, str | None]]:
    return [(one.source, one.bundle) for one in result.decisions if one.kind in MOVES]


def test_a_round_comes_early_once_a_shift_has_lasted_two_panes(clock: Clock) -> None:
    assert not any(map(is_early, clock.done)), "even load brings no early round"
    learned = clock.done[-1].usage_hash
    hot = clock.heat("b1:8080", 3)
    assert clock.pass_panes(1) == [], "one pane may be a hiccup"
    (early,) = clock.pass_panes(2)
    assert early.because is not None
    assert early.because["shifted_to"] == "b1:8080"
    assert early.because["above_pct"] > 40 > 10 > early.because["before_pct"]
    assert early.at_ms % 60_000, "between two usual rounds"
    assert {source for source, _ in moves_of(early)} == {"b1:8080"}
    assert {bundle for _, bundle in moves_of(early)} & set(hot)
    assert early.usage_hash == learned, "an early round teaches nothing"
    (entry,) = [e for e in clock.run.entries if e.kind is Kind.ROUND and "because" in e.data]
    assert entry.data["because"] == early.because
    usual = clock.to_next_round()
    assert not moves_of(usual), "an average over both times would have taken the hot broker for a cold one"
    assert usual.usage_hash != learned
    view = EvidenceView(Reader(clock.run.settings))
    why = {row["round_id"]: view.why_round(row) for row in view.rounds()}
    assert str(why[early.round_id]).startswith("early: load had shifted to b1:8080, by its traffic ")
    assert why[usual.round_id] is None


def test_a_usual_round_that_sees_a_shift_goes_by_what_came_since(clock: Clock) -> None:
    learned = clock.done[-1].usage_hash
    clock.pass_panes(3)
    clock.heat("b1:8080", 3)
    (usual,) = clock.pass_panes(3)
    assert not is_early(usual)
    assert usual.because is not None
    assert {source for source, _ in moves_of(usual)} == {"b1:8080"}
    assert usual.usage_hash != learned, "what bundles carry is learned, and bursts are followed"
    clock.heat("b2:8080", 3)
    assert any(map(is_early, clock.pass_panes(3))), "load may shift to another broker next"


def test_load_that_shifts_to_the_same_broker_again_waits(clock: Clock) -> None:
    clock.heat("b1:8080", 3)
    assert len(clock.pass_panes(4)) == 1, "the same shift is no reason for another round"
    clock.to_next_round()
    clock.run.load.rates = dict.fromkeys(clock.run.load.rates, USUAL)
    clock.to_next_round()
    clock.heat("b1:8080", 4)
    assert clock.pass_panes(4) == []


def test_a_broker_that_is_full_for_other_reasons_is_no_target(clock: Clock) -> None:
    """Its reading is the only thing that says so: readings are doubted only where traffic has changed."""
    clock.run.load.other_cpu["b3:8080"] = 300.0
    clock.to_next_round()
    clock.heat("b1:8080", 3)
    found = clock.pass_panes(3)
    assert any(map(is_early, found))
    targets = {one.target for result in found for one in result.decisions if one.kind in MOVES}
    assert targets == {"b2:8080"}


def test_a_shift_for_which_nothing_could_be_moved_may_grow(clock: Clock) -> None:
    for bundle in clock.run.owned_by("b1:8080"):
        clock.run.command("override", override="freeze", bundle=bundle)
    hot = clock.heat("b1:8080", 2.5)
    (first,) = clock.pass_panes(3)
    assert is_early(first)
    assert not moves_of(first)
    for wish in list(clock.run.state.overrides):
        clock.run.command("end_override", id=wish)
    clock.run.load.rates |= dict.fromkeys(hot, 4 * USUAL)
    (second,) = [one for one in clock.pass_panes(4) if one.because is not None]
    assert {source for source, _ in moves_of(second)} == {"b1:8080"}


def test_a_cluster_has_so_many_shifts_an_hour(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shifts, "MOST", 1)
    clock.heat("b1:8080", 3)
    assert len(clock.pass_panes(3)) == 1
    clock.to_next_round()
    clock.heat("b2:8080", 4)
    assert clock.pass_panes(3) == []


def test_a_strategy_that_counts_rounds_is_not_asked_early(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "tables", "rounds.strategy=headroom", "rounds.challengers=steady")
    clock.heat("b1:8080", 3)
    assert clock.pass_panes(4) == []
    clock.run.command("strategy", strategy="steady", challengers=["headroom"])
    clock.to_next_round()
    clock.heat("b2:8080", 4)
    kept = clock.run.state.round_memory.get("headroom")
    assert kept
    (early,) = clock.pass_panes(3)
    assert is_early(early)
    assert early.memory["headroom"] == kept, "who was not asked keeps its memory"


def test_nothing_comes_early_where_it_is_off(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "tables", "rounds.least_interval_s=0")
    clock.heat("b1:8080", 3)
    assert clock.pass_panes(4) == []


def test_a_broker_that_joins_is_no_shift(clock: Clock) -> None:
    clock.run.join("b4:8080")
    assert clock.pass_panes(4) == []


def come_back_with_the_whole_machine(clock: Clock) -> None:
    """Kill a broker, and let it tell the machine's limit when it is back."""
    clock.run.kill("b3:8080")
    clock.run.look_up(*(one.bundle for one in clock.run.state.bundles.values() if one.state is State.FREE))
    clock.to_next_round()
    clock.run.load.cpu_limits["b3:8080"] = 8 * LIMITS["cpu"]
    clock.run.join("b3:8080", incarnation=2)


def test_a_broker_that_returns_gets_no_more_than_its_usual_limit_has_room_for(clock: Clock) -> None:
    """Pulsar's brokers tell the whole machine's limit until they look for their quota."""
    come_back_with_the_whole_machine(clock)
    moved = moves_of(clock.to_next_round())
    del clock.run.load.cpu_limits["b3:8080"]
    for _ in range(3):
        moved += moves_of(clock.to_next_round())
    assert 6 <= len(moved) == len(clock.run.owned_by("b3:8080")) <= 8, "a third of 24, and none too many"


@pytest.mark.parametrize("least_interval_s", [0, 10])
def test_the_usual_limit_is_known_to_a_worker_that_starts_later_and_without_early_rounds(
    tmp_path: Path, least_interval_s: int
) -> None:
    clock = Clock(tmp_path / "tables", f"rounds.least_interval_s={least_interval_s}")
    clock.run.kill("b3:8080")
    clock.run.load.cpu_limits["b3:8080"] = 8 * LIMITS["cpu"]
    clock.run.join("b3:8080", incarnation=2)
    clock.run.panes(7)
    clock.rounds = Rounds(clock.run.settings, every_round=False)
    found = clock.to_next_round()
    frame = Frame.from_json(found.inputs["frame"])
    limits = dict(zip(frame.brokers, frame.limit[:, RESOURCES.index("cpu")].tolist(), strict=True))
    assert limits["b3:8080"] == limits["b1:8080"]


def test_a_plan_believes_the_limit_of_a_broker_that_returns_no_more_than_the_round_does(clock: Clock) -> None:
    come_back_with_the_whole_machine(clock)
    clock.run.panes(6)
    planned = plan_next_round(clock.run.settings, clock.run.root, clock.run.now_ms).to_json()["moves"]
    clock.run.command("round_now")
    done = Rounds(clock.run.settings, every_round=False).advance()
    assert done is not None
    assert [(row["source"], row["bundle"]) for row in planned] == moves_of(done.results[0]) != []


def test_rounds_that_follow_as_brokers_settle_belong_to_the_same_shift(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take none of the hour's shifts, and look back to its beginning. Brokers settle where others move bundles."""
    monkeypatch.setattr(shifts, "_waits", lambda _: True)
    for bundle in clock.run.owned_by("b1:8080"):
        clock.run.command("override", override="freeze", bundle=bundle)
    clock.heat("b1:8080", 3)
    watch, horizons_ms = clock.rounds._shifts, []
    for _ in range(6):
        horizons_ms += [watch.horizon_ms(one.at_ms) for one in clock.pass_panes(1)]
    assert horizons_ms == [20_000, 30_000, 40_000, 50_000], "and no more than three of them"
    assert len(watch._shifted_ms) == 1
