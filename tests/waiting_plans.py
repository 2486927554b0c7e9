"""Runs on real tables in which a round has more moves than it may make by itself, so that its plan waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from controller.domain.entries import Kind
from tests.short_run import ShortRun, begin_skewed


@dataclass(frozen=True)
class Waiting:
    """A run whose `round_id` left a plan of these `moves` (decision ids, in order) waiting."""

    run: ShortRun
    round_id: str
    moves: list[str]

    def bundle_of(self, move: int) -> str:
        """The bundle of a move."""
        entry = next(e for e in self.run.entries if e.kind is Kind.PLAN and "moves" in e.data)
        return str(entry.data["moves"][move][3])


def begin_waiting(folder: Path) -> Waiting:
    """Three brokers, the first of them hot; a round wants to move more than one bundle off it."""
    run = begin_skewed(folder, brokers=3, bundles=12, hot=2)
    run.control = replace(run.control, approve_above=0)
    for _ in range(5):
        run.round()
        run.panes(1)
        if run.state.plan is not None:
            break
    assert run.state.plan is not None, "no round wanted to move so much"
    return Waiting(run, run.state.plan.round_id, [one.id for one in run.state.plan.moves])


def play_approved(folder: Path) -> Waiting:
    """One move is overtaken by an operator's own; the plan is approved, and the others are carried out."""
    story = begin_waiting(folder)
    story.run.command("unload_bundle", bundle=story.bundle_of(0), to="b3:8080")
    story.run.command("approve", round=story.round_id)
    story.run.panes(6)
    story.run.round()
    story.run.panes(1)
    story.run.round()
    story.run.project()
    return story
