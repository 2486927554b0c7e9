"""The demo's acts on a made-up cluster: what is said of an effect that did not come, and which round is the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.config.load import load_settings
from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.process.children import ProcessFailed
from controller.testbed.demo import scenario as module
from controller.testbed.demo.scenario import Scenario
from tests.unit.control.plan_driver import ROUND, decide, move, running
from tests.unit.testbed.test_demo_figures import audit, entry

LATE = "did not happen within 120 s (journal seq 7)"


class Made:
    """In place of a cluster, its job, its clients and a screen. `fresh`: entries that nobody has read yet."""

    def __init__(self, state: ClusterState | None = None) -> None:
        self.settings = load_settings(None, "demo", env={})
        self.folder = Path("/none")
        self.entries: list[Entry] = []
        self.fresh: list[Entry] = []
        self.acts: list[str] = []
        self.shown: int | None = None  # entries that the screen shows at the end
        self.children, self.alive, self.logs = {"job": self}, True, ()
        self._state = state or ClusterState()

    @property
    def state(self) -> ClusterState:
        self.entries += self.fresh
        self.fresh = []
        return self._state

    def wait_until(self, holds: Callable[[ClusterState], bool], timeout_s: float, what: str, needs: str) -> None:
        if not holds(self.state):
            raise ProcessFailed(f"{what} did not happen within {timeout_s:g} s (journal seq 7)")

    def command(self, kind: str, **args: Any) -> None:
        self.fresh.append(a_round(2, a=0.36, b=0.43))

    def stop(self, timeout_s: float) -> None:
        """The job ends, then the clients: both see a last round."""
        job = timeout_s == module.JOB_STOP_S
        self.fresh.append(a_round(3, a=0.34, b=0.43) if job else a_round(4, a=0.01, b=0.02))

    def act(self, text: str) -> None:
        self.acts.append(text)

    def closing(self) -> None:
        self.shown = len(self.entries)

    def tell(self, text: str) -> None:
        """Nobody looks."""


def a_round(seq: int, **scores: float) -> Entry:
    return entry(Kind.ROUND, seq, data={"at_ms": seq, "memory": {"scores": scores}})


def scenario(made: Made) -> Scenario:
    found = Scenario(made, 5.0, made, typed_ms=0)  # type: ignore[arg-type]
    found.workload = made  # type: ignore[assignment]
    return found


def plan_state(how: str = "") -> ClusterState:
    """The state with a plan that waits, or that was decided about."""
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1, "c:1"))
    if how:
        driver.command(how, round=ROUND)
    return driver.state


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (ClusterState(), ""),
        (plan_state(), f"; the plan of round {ROUND} waits for an approval, and other moves are held back meanwhile"),
        (
            plan_state("decline"),
            f"; the plan of round {ROUND} was declined by tester, which holds others of its size back for a while",
        ),
    ],
)
def test_a_plan_that_holds_moves_back_is_named_where_a_move_did_not_come(state: ClusterState, cause: str) -> None:
    made = Made(state)
    scenario(made)._relief(0, "broker-3", first=True)
    assert made.acts == [f"not seen: relief of broker-3 {LATE}{cause}"]


def test_what_no_plan_holds_back_is_not_blamed_on_one() -> None:
    made = Made(plan_state())
    assert not scenario(made)._wait("the failover", lambda state: False, at_least_s=120)
    assert made.acts == [f"not seen: the failover {LATE}"]


def test_the_end_is_that_of_the_last_round_with_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds go on after the mode is paused, until the job has stopped; clients stop afterwards."""
    made = Made()
    made.entries.append(a_round(1, a=0.1, b=0.6))
    monkeypatch.setattr(module, "check_store", lambda *store, **options: audit())
    monkeypatch.setattr(module, "check_journal", lambda root, read_state: read_state())
    demo = scenario(made)
    demo._finish()
    assert demo.figures.scores_after == {"a": 0.34, "b": 0.43}
    assert (demo.figures.spread_before, demo.figures.spread_after) == (0.5, 0.09)
    assert [e.seq for e in demo.highlights.entries] == [1, 2, 3]
    assert made.shown == 3
    assert demo.figures.rounds == 4
