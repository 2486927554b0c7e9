"""Runs one point of a backtest: a strategy with its knobs over a whole recording, from frames to figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from controller.backtest.point.checks import Checks
from controller.backtest.point.figures import figures_of
from controller.backtest.point.frames import Frames
from controller.backtest.point.grid import GridPoint
from controller.backtest.point.replay_world import ReplayWorld
from controller.backtest.point.result import PointRun
from controller.backtest.recording.prepared import Prepared, Replay
from controller.domain.settings.policy import PolicySettings
from controller.policy.plan import Plan, make_plan
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.snapshot import Snapshot, from_frame

Decide = Callable[[Snapshot, Mapping[str, Any]], Plan]  # takes a snapshot and the memory of the round before


def run_point(prepared: Prepared, point: GridPoint, base: PolicySettings, replay: Replay) -> PointRun:
    """Run all steps and all rounds of a point. The same arguments give the same result."""
    settings = point.settings(base)

    def decide(snapshot: Snapshot, memory: Mapping[str, Any]) -> Plan:
        return make_plan(snapshot, point.strategy, memory, settings, candidates=False)

    world, checks = play(prepared, decide, settings)
    return figures_of(world, checks, point, replay)


def play(prepared: Prepared, decide: Decide, settings: PolicySettings) -> tuple[ReplayWorld, Checks]:
    """Run all steps; return the world after the last one, and the checks of all moves."""
    world = ReplayWorld(prepared, settings)
    frames, checks = Frames(prepared), Checks(prepared.brokers)
    memory: Mapping[str, Any] = {}
    usage = UsageModel()
    ahead = 0  # the next step
    for round_, last in enumerate(prepared.round_step.tolist()):
        for step in range(ahead, last + 1):
            world.advance(step)
        ahead = last + 1
        frame = frames.frame(round_, world.bundles, world.owners_at(round_))
        usage, estimates = observe(usage, frame, grace_ms=settings.shed.grace_period_ms)
        snapshot = from_frame(replace(frame, estimates=estimates), settings)
        plan = decide(snapshot, memory)
        memory = plan.outcome.memory
        checks.see(plan.snapshot, world.take_disturbed())
        checks.expect(plan.snapshot, world.carry_out(plan.decisions, round_))
    for step in range(ahead, len(prepared.at_ms)):
        world.advance(step)
    return world, checks
