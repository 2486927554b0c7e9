"""`ballast decide` with Pulsar's shedders against a leader in plain loops: the same bundles, round by round."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest

from controller.decide.line import parse_line
from controller.decide.session import DecideSession
from controller.domain.decision import Decision, Reason
from controller.domain.settings.policy import PolicySettings, SplitSettings
from tests.sim.decide.decide_lines import MINUTE_MS
from tests.sim.decide.pulsar_leader import Leader

ROUNDS = 60
UNPLACED = (Reason.NO_TARGET, Reason.WOULD_NOT_IMPROVE)  # shed, and its destination was nobody or its owner
SETTINGS = replace(PolicySettings(), split=SplitSettings(enabled=False))


class World:
    """Some brokers and bundles whose load swings; brokers come and go, what is decided is carried out."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.first = self.rng.randint(3, 14)
        self.alive = {f"broker-{at}" for at in range(self.first)}
        self.load = {f"x{at:03d}": self.rng.lognormvariate(0, 1.2) for at in range(self.rng.randint(20, 200))}
        self.owner = {name: f"broker-{int(self.first * self.rng.random() ** 1.8)}" for name in self.load}
        self.size = self.rng.choice([1e2, 1e3, 1e4, 1e5])  # bytes of a message
        self.busy = self.rng.choice([0.2, 0.4, 0.8])  # of all the CPU there is

    def brokers(self, minute: int) -> dict[str, Any]:
        """The line's brokers of this minute."""
        self._come_and_go(minute)
        found: dict[str, Any] = {
            broker: {"cpu": [0.0, 800], "bandwidthIn": [0.0, self.size * 3e5], "bandwidthOut": [0.0, self.size * 3e5]}
            | {"memory": [5e9, 8e9], "directMemory": [3e9, 4e9], "bundles": {}}
            for broker in sorted(self.alive)
        }
        whole = sum(self.load.values())
        for at, (name, size) in enumerate(self.load.items()):
            value = max(0.0, size * (1 + 0.2 * self.rng.gauss(0, 1)) * (1 + 0.5 * math.sin(minute / 9 + at % 7)))
            body = found[self.owner[name]]
            row = [round(value * 300, 3), round(value * 200, 3)]
            row += [float(round(value * self.size * 300)), float(round(value * self.size * 200)), 3, 1, 1]
            body["bundles"][name] = row
            body["cpu"][0] = round(body["cpu"][0] + value / whole * self.first * 800 * self.busy, 3)
            body["bandwidthIn"][0] += row[2]
            body["bandwidthOut"][0] += row[3]
        return found

    def _come_and_go(self, minute: int) -> None:
        if self.rng.random() < 0.03 and len(self.alive) > 2:
            gone = self.rng.choice(sorted(self.alive))
            self.alive.discard(gone)
            for name in [name for name, owner in self.owner.items() if owner == gone]:
                self.owner[name] = self.rng.choice(sorted(self.alive))
        if self.rng.random() < 0.03:
            self.alive.add(f"broker-{self.first + minute}")


def shed_of(decisions: tuple[Decision, ...]) -> dict[str, set[str]]:
    """Source -> bundles: what moves, and what was shed and found no place."""
    found: dict[str, set[str]] = {}
    for decision in decisions:
        if decision.bundle and decision.source and (decision.target or decision.reason in UNPLACED):
            found.setdefault(decision.source, set()).add(decision.bundle)
    return found


@pytest.mark.parametrize("strategy", ["overload", "threshold", "uniform", "average"])
def test_the_same_bundles_are_shed_as_by_a_leader_in_plain_loops(strategy: str) -> None:
    shed = 0
    for seed in range(8):
        world, leader, session = World(seed), Leader(strategy), DecideSession(strategy, SETTINGS)
        for minute in range(ROUNDS):
            now_ms = 1_000_000 + minute * MINUTE_MS
            brokers = world.brokers(minute)
            wanted = {broker: set(names) for broker, names in leader.cycle(now_ms, brokers).items()}
            line = parse_line(json.dumps({"now": now_ms, "brokers": brokers}).encode())
            decisions = session.decide(session.snapshot(line))
            assert shed_of(decisions) == wanted, f"seed {seed}, minute {minute}"
            shed += sum(map(len, wanted.values()))
            for decision in decisions:
                if decision.bundle and decision.target:
                    world.owner[decision.bundle] = decision.target
                    leader.unloaded(decision.bundle, now_ms)
    assert shed > 50
