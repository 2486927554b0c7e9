"""Plays a scenario: sixty rounds of what happens, what is observed and what is moved; figures on the truth.

A round's moves hold at once, and its figures are taken after them, before traffic changes again. Same seed, same
scenario: the same minutes and the same errors of measurement for every player.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from controller.domain.settings.policy import PolicySettings
from controller.sim.field.cluster import MINUTE_MS, Cluster
from controller.sim.field.drawn import drawn
from controller.sim.field.observation import Observer
from controller.sim.field.players import GREEDY, ORACLE, Greedy, Oracle, Player, StrategyPlayer
from controller.sim.field.scenarios import BIG, QUIET, ROUNDS, SEVEN, Scenario
from controller.sim.field.surprises import SURPRISES

SCENARIOS: dict[str, Scenario] = SEVEN | QUIET | SURPRISES | BIG | {drawn.__name__: drawn}
END_ROUNDS = 10
OVERLOADED = 0.85
RELIEF_ROUNDS = 4  # within which a cluster that begins unbalanced should be relieved
RETURN_MINUTES = 30  # a bundle that moves again within so many is counted

MakePlayer = Callable[[Cluster, Observer], Player]


@dataclass(slots=True)
class Run:
    """What one player made of one scenario, round by round. `ratio`: worst broker / best achievable.
    `overloaded_later`: of the minutes that brokers were overloaded, those after the moves of round `RELIEF_ROUNDS`."""

    ratio: list[float] = field(default_factory=list)
    overloaded_minutes: float = 0.0
    overloaded_later: float = 0.0
    moves: int = 0
    twice: int = 0

    @property
    def mean(self) -> float:
        """Over all rounds."""
        return float(np.mean(self.ratio))

    @property
    def end(self) -> float:
        """Over the last ten rounds."""
        return float(np.mean(self.ratio[-END_ROUNDS:]))


def player_of(name: str, settings: PolicySettings | None = None) -> MakePlayer:
    """`greedy`, `oracle`, `oracle` with another tolerance as `oracle:0.04`, or a strategy by its name."""
    kind, _, tolerance = name.partition(":")
    if kind == ORACLE:
        return lambda cluster, observer: Oracle(cluster, *map(float, filter(None, [tolerance])))
    if kind == GREEDY:
        return lambda cluster, observer: Greedy(len(cluster.traffic))
    return lambda cluster, observer: StrategyPlayer(name, settings or PolicySettings(), observer)


def play(scenario: str, make_player: MakePlayer, seed: int) -> Run:
    """One player in one scenario."""
    number_of_scenario = zlib.crc32(scenario.encode())
    story = SCENARIOS[scenario](np.random.default_rng([seed, number_of_scenario]))
    cluster = story.cluster
    observer = Observer(cluster, np.random.default_rng([seed, number_of_scenario, 1]))
    player = make_player(cluster, observer)
    run, moved = Run(), np.full(len(cluster.owner), -np.inf)
    for number in range(ROUNDS):
        changed = story.happen(number)
        minute = number * cluster.interval_ms / MINUTE_MS
        for bundle, broker in player.decide(observer.observe(number, changed)):
            if cluster.owner[bundle] == broker:
                continue
            run.twice += bool(minute - moved[bundle] < RETURN_MINUTES)
            run.moves += 1
            cluster.owner[bundle], moved[bundle] = broker, minute
        worst = cluster.worst()
        run.ratio.append(float(worst.max()) / cluster.best_achievable())
        overloaded = int((worst > OVERLOADED).sum()) * cluster.interval_ms / MINUTE_MS
        run.overloaded_minutes += overloaded
        run.overloaded_later += overloaded if number >= RELIEF_ROUNDS - 1 else 0.0
    return run
