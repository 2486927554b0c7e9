"""Small recordings for tests: load reports v1 in which a message costs one percent of a core, and scripted rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from controller.backtest.point.figures import figures_of
from controller.backtest.point.grid import GridPoint
from controller.backtest.point.replay_world import ReplayWorld
from controller.backtest.point.result import PointRun
from controller.backtest.point.run_point import play
from controller.backtest.recording.prepared import Prepared, Replay, prepare
from controller.backtest.recording.recording import from_reports
from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import assess, constrain
from controller.policy.plan import Plan
from controller.policy.strategies.base import StrategyOutcome
from controller.policy.view.snapshot import Snapshot

STEP_MS = 30_000
REPLAY = Replay(round_interval_ms=2 * STEP_MS)
QUARTERS = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
A, B, C, D = (f"t/n/{part}" for part in QUARTERS)
Held = Mapping[str, float]  # bundle -> messages/s


def report(
    broker: str, step: int, held: Held, cpu: float | None = None, limit: float = 100.0, unlisted: float = 0.0,
    **totals: float,
) -> dict[str, Any]:  # fmt: skip
    """The report of a broker in a step; `unlisted` messages/s are in its totals and in no bundle's row."""
    messages = sum(held.values()) + unlisted
    unknown = {"usage": -1.0, "limit": -1.0}
    used = {"cpu": {"usage": messages if cpu is None else cpu, "limit": limit}}
    zeros = dict.fromkeys(BUNDLE_FIELDS, 0.0)
    return {
        "v": 1, "broker": broker, "incarnation": 1, "nonce": "n", "session": 1, "sequence": step,
        "sent_ms": step * STEP_MS + 1_000, "rpc_queue_ms": 0.0, "metadata_latency_ms": 0.0, "tail": None,
        "resources": {name: used.get(name, unknown) for name in RESOURCES},
        "totals": {**zeros, "msg_rate_in": messages, "topics": 4.0 * len(held), "bundles": len(held), **totals},
        "bundles": [
            {"bundle": name, **zeros, "msg_rate_in": rate, "topics": 4.0, "partitioned_topics": []}
            for name, rate in held.items()
        ],
    }  # fmt: skip


def prepared_of(reports: Sequence[Mapping[str, Any]], replay: Replay = REPLAY) -> Prepared:
    """Prepared with the default weights."""
    return prepare(from_reports(reports, STEP_MS), PolicySettings().weights.in_order(), replay)


def move(bundle: str, source: str, target: str, after: Mapping[str, float] | None = None) -> Decision:
    """A transfer as a strategy decides it."""
    return Decision(
        "", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, bundle=bundle, source=source, target=target,
        after=after or {},
    )  # fmt: skip


def split(bundle: str, source: str, boundary: int) -> Decision:
    """A split as a strategy decides it."""
    return Decision(
        "", DecisionKind.SPLIT, Label.SUCCESS, Reason.SPLIT_TOPICS, bundle=bundle, source=source, boundary=boundary
    )


class Script:
    """A round's decisions by its number; notes every snapshot."""

    def __init__(self, rounds: Mapping[int, Sequence[Decision]], settings: PolicySettings | None = None) -> None:
        self.rounds, self.settings = rounds, settings or PolicySettings()
        self.seen: list[Snapshot] = []

    def __call__(self, snapshot: Snapshot, memory: Mapping[str, Any]) -> Plan:
        judged = constrain(assess(snapshot, self.settings), self.settings)
        decisions = tuple(self.rounds.get(len(self.seen), ()))
        self.seen.append(judged)
        outcome = StrategyOutcome(decisions, (), memory, np.zeros(len(snapshot.bundles), bool))
        return Plan(judged, outcome, decisions)


def played(
    reports: Sequence[Mapping[str, Any]], rounds: Mapping[int, Sequence[Decision]], replay: Replay = REPLAY
) -> tuple[PointRun, ReplayWorld, Script]:
    """The result, the world and the script of a replay with scripted rounds."""
    script = Script(rounds)
    world, checks = play(prepared_of(reports, replay), script, script.settings)
    return figures_of(world, checks, GridPoint("scripted", ()), replay), world, script
