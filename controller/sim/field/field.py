"""The field strategies are measured on: seeded clusters, sixty one-minute rounds, the real path from frame to moves.

A scenario is a workload (what every bundle carries in each minute) and a start (who owns it). Each minute the true
loads are measured with noise, quantised into a Frame and given to `make_plan`; its moves hold from the next minute on.
Loads never depend on who serves them, so every strategy faces the very same minutes. Splitting is off: the field
compares moves. Same seed, same numbers, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import DecisionKind
from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, RESOURCE_SCALES, RESOURCES, UNKNOWN
from controller.domain.settings.policy import PolicySettings, SplitSettings
from controller.domain.state import LIVE
from controller.policy.plan import Plan, make_plan
from controller.policy.view.frame import OWNED, Frame, Ints
from controller.policy.view.snapshot import from_frame
from controller.policy.view.tabulate import quantise

Floats = NDArray[np.float64]
Random = np.random.Generator

MINUTES = 60
MINUTE_MS = 60_000
START_MS = 1_700_000_000_000
REPORTS = 12
EVENT_MINUTE = 10  # when one broker dies, or bundles turn hot
RETURN_MINUTES = 30  # a bundle that moves twice within so many is counted
MESSAGES_A_LOAD, BYTES_A_LOAD = 1_000.0, 1_000_000.0  # of one unit of load, in + out
CPU_A_MESSAGE, CPU_A_BYTE = 0.5 / MESSAGES_A_LOAD, 0.5 / BYTES_A_LOAD  # percent of a core
BASE_CORES, CORE_PCT = 16, 100.0
NIC_BYTES_PER_S = 1.25e9 / BASE_CORES  # of each direction, a core of the broker
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_R = {name: at for at, name in enumerate(RESOURCES)}


@dataclass(frozen=True, eq=False)
class World:
    """B brokers x N bundles: what stays the same in a run. `factor(minute)` [N] multiplies `load` [N]."""

    cores: Floats  # [B]
    load: Floats  # [N] cost in percent of a core, about
    bytes_share: Floats  # [N] bytes a unit of load, 1 on average
    inward: Floats  # [N] what part of messages and bytes comes in
    sessions: Floats  # [N]
    owner: Ints  # [N] at the start
    factor: Callable[[int], Floats]
    dies_at: int | None = None  # the first broker does

    def fields(self, minute: int) -> Floats:
        """[N x F] what every bundle truly carries."""
        load = self.load * self.factor(minute)
        messages, size = load * MESSAGES_A_LOAD, load * BYTES_A_LOAD * self.bytes_share
        result = np.zeros((len(load), len(BUNDLE_FIELDS)))
        columns = {
            "msg_rate_in": messages * self.inward,
            "msg_rate_out": messages * (1 - self.inward),
            "throughput_in": size * self.inward,
            "throughput_out": size * (1 - self.inward),
            "topics": np.full(len(load), 10.0),
            "producers": self.sessions / 2,
            "consumers": self.sessions / 2,
            "sessions": self.sessions,
        }
        for name, values in columns.items():
            result[:, _F[name]] = values
        return result

    def limits(self) -> Floats:
        """[B x R] NaN where the field has no such resource."""
        result = np.full((len(self.cores), len(RESOURCES)), np.nan)
        result[:, _R["cpu"]] = self.cores * CORE_PCT
        for name in ("bandwidth_in", "bandwidth_out"):
            result[:, _R[name]] = self.cores * NIC_BYTES_PER_S
        return result


def costs_of(fields: Floats) -> Floats:
    """[N x R] what bundles truly use, 0 where the field has no such resource."""
    result = np.zeros((len(fields), len(RESOURCES)))
    messages = fields[:, _F["msg_rate_in"]] + fields[:, _F["msg_rate_out"]]
    size = fields[:, _F["throughput_in"]] + fields[:, _F["throughput_out"]]
    result[:, _R["cpu"]] = messages * CPU_A_MESSAGE + size * CPU_A_BYTE
    result[:, _R["bandwidth_in"]] = fields[:, _F["throughput_in"]]
    result[:, _R["bandwidth_out"]] = fields[:, _F["throughput_out"]]
    return result


def imbalance(world: World, cost: Floats, owner: Ints, alive: NDArray[np.bool_]) -> float:
    """Max load / best achievable: the larger of each resource's mean and the biggest bundle on the biggest broker."""
    limits = world.limits()[alive]
    known = np.isfinite(limits[0])
    limits, cost = limits[:, known], cost[:, known]
    used = np.column_stack([np.bincount(owner, column, len(alive)) for column in cost.T])[alive]
    best = max(float((cost.sum(axis=0) / limits.sum(axis=0)).max()), float((cost / limits.max(axis=0)).max()))
    return float((used / limits).max()) / best


@dataclass(slots=True)
class Run:
    """One strategy on one world. `ratio` by minute, as the loads truly were after the moves of the minute before."""

    ratio: list[float] = field(default_factory=list)
    moves: int = 0
    moves_by_minute: list[int] = field(default_factory=list)
    twice: int = 0

    @property
    def mean(self) -> float:
        """Over all minutes."""
        return float(np.mean(self.ratio))

    @property
    def end(self) -> float:
        """In the last minute."""
        return self.ratio[-1]


Decide = Callable[[Frame, Mapping[str, Any], PolicySettings], Plan]


def policy_path(strategy: str) -> Decide:
    """The real path: from the frame's integers through sufficiency, constraints, the strategy, and pacing."""

    def decide(frame: Frame, memory: Mapping[str, Any], settings: PolicySettings) -> Plan:
        return make_plan(from_frame(frame, settings), strategy, memory, settings)

    return decide


def play(world: World, decide: Decide, rng: Random, settings: PolicySettings | None = None, noise: float = 0.03) -> Run:
    """All minutes of one run. `noise`: standard deviation of each bundle's measured figures, as a fraction."""
    settings = replace(settings or PolicySettings(), split=SplitSettings(enabled=False, max_topics=None))
    names = bundle_names(len(world.load))
    owner, alive = world.owner.copy(), np.ones(len(world.cores), bool)
    moved_at = np.zeros(len(owner), np.int64)
    memory: Mapping[str, Any] = {}
    run = Run()
    for minute in range(MINUTES):
        if minute == world.dies_at:
            alive[0] = False
            _place_orphans(world, owner, alive, world.fields(minute))
        fields = world.fields(minute)
        run.ratio.append(imbalance(world, costs_of(fields), owner, alive))
        measured = fields * np.maximum(rng.normal(1.0, noise, len(fields)), 0.0)[:, None]
        at_ms = START_MS + minute * MINUTE_MS
        frame = frame_of(world, names, measured, owner, alive, moved_at, at_ms)
        plan = decide(frame, memory, settings)
        memory = plan.outcome.memory
        _carry_out(run, plan, frame, len(alive), owner, moved_at, at_ms)
    return run


def _carry_out(run: Run, plan: Plan, frame: Frame, count: int, owner: Ints, moved_at: Ints, at_ms: int) -> None:
    index = {name: at for at, name in enumerate(frame.bundles)}
    brokers = {broker_name(at): at for at in range(count)}
    moves = [d for d in plan.decisions if d.kind is DecisionKind.TRANSFER]
    for move in moves:
        at = index[str(move.bundle)]
        run.twice += bool(moved_at[at] and at_ms - moved_at[at] < RETURN_MINUTES * MINUTE_MS)
        owner[at], moved_at[at] = brokers[str(move.target)], at_ms
    run.moves += len(moves)
    run.moves_by_minute.append(len(moves))


def _place_orphans(world: World, owner: Ints, alive: NDArray[np.bool_], fields: Floats) -> None:
    """What assignment does: the fewest bundles of the namespace, then the lower band of load, then fewest in all."""
    space = namespace_numbers(len(owner))
    limits = world.limits()[:, _R["cpu"]]
    cost = costs_of(fields)[:, _R["cpu"]]
    band = np.floor(np.bincount(owner, cost, len(alive)) / limits / 0.05)
    for bundle in np.flatnonzero(~alive[owner]).tolist():
        held = np.bincount(owner[space == space[bundle]], minlength=len(alive))
        order = np.lexsort((np.bincount(owner, minlength=len(alive)), band, held))
        owner[bundle] = next(at for at in order.tolist() if alive[at])


def broker_name(number: int) -> str:
    """Sorted as the numbers are."""
    return f"broker-{number:03d}:8080"


def bundle_names(count: int) -> tuple[str, ...]:
    """Sorted names: sixteen bundles a namespace."""
    width = 2**32 // 16
    ranges = [f"0x{at * width:08x}_0x{min((at + 1) * width, 2**32 - 1):08x}" for at in range(16)]
    return tuple(f"field/ns{at // 16:04d}/{ranges[at % 16]}" for at in range(count))


def namespace_numbers(count: int) -> Ints:
    """[N] the namespace of each of `bundle_names`."""
    return np.arange(count) // 16


def frame_of(
    world: World, names: tuple[str, ...], fields: Floats, owner: Ints, alive: NDArray[np.bool_], moved_at: Ints,
    at_ms: int,
) -> Frame:  # fmt: skip
    """What a round would read: brokers that report twelve times a minute, bundles whose owners the journal knows."""
    brokers = np.flatnonzero(alive)
    place = np.full(len(alive), -1)
    place[brokers] = np.arange(len(brokers))
    usage = np.column_stack([np.bincount(owner, c, len(alive)) for c in costs_of(fields).T])[brokers]
    totals = np.column_stack([np.bincount(owner, c, len(alive)) for c in fields.T])[brokers]
    limits = world.limits()[brokers]
    usage[~np.isfinite(limits)] = np.nan
    held = place[owner]
    return Frame.of(
        at_ms,
        LIVE,
        tuple(map(broker_name, brokers.tolist())),
        names,
        broker={"incarnation": 1, "registered": 1, "alive": 1, "reports": REPORTS, "last_event_ms": at_ms - 1_000},
        bundle={"owner": held, "status": OWNED, "epoch": 1, "moved_at_ms": moved_at},
        row={"bundle": np.arange(len(owner)), "reporter": held, "reports": REPORTS},
        usage=_whole(usage, RESOURCE_SCALES),
        limit=_whole(limits, RESOURCE_SCALES),
        totals=_whole(totals, FIELD_SCALES),
        row_fields=_whole(fields, FIELD_SCALES),
        namespace_bundles={f"field/ns{at:04d}": 16 for at in range((len(owner) + 15) // 16)},
    )


def _whole(values: NDArray[Any], scales: tuple[int, ...]) -> Ints:
    return quantise(values, np.array(scales, np.float64), UNKNOWN)
