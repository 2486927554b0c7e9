"""Plays some rounds and prints hashes of what was learned and decided: `field_hashes ROUNDS SCENARIO …`.

Run as a program by `test_same_on_any_cpu.py`, each time with other features of the CPU switched off. The first line
says which are on, of those that numpy chooses from at run time.
"""

from __future__ import annotations

import hashlib
import sys
import zlib

import numpy as np

from benchmarks.published.clusters import cluster
from benchmarks.published.clusters import moves as moves_of
from controller.domain.settings.policy import PolicySettings
from controller.policy.usage.kept import Learned, hash_of
from controller.sim.field.observation import Observer
from controller.sim.field.play import SCENARIOS
from controller.sim.field.players import StrategyPlayer

SEED = 5


def list_features() -> list[str]:
    """The features of this CPU that numpy chooses from at run time and that are not switched off."""
    found: list[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return found


def play_field(scenario: str, rounds: int) -> None:
    """Print a line a round: the hash of the model after it, that of all moves so far, and how many they are."""
    number_of_scenario = zlib.crc32(scenario.encode())
    story = SCENARIOS[scenario](np.random.default_rng([SEED, number_of_scenario]))
    observer = Observer(story.cluster, np.random.default_rng([SEED, number_of_scenario, 1]))
    player = StrategyPlayer("steady", PolicySettings(), observer)
    moves = []
    for number in range(rounds):
        for bundle, broker in player.decide(observer.observe(number, story.happen(number))):
            story.cluster.owner[bundle] = broker
            moves.append((number, bundle, broker))
        learned = hash_of(Learned(player.usage, number))
        print(scenario, number, learned, hashlib.sha256(repr(moves).encode()).hexdigest(), len(moves))


def play_equals(strategy: str, rounds: int) -> None:
    """The same on a cluster of bundles that are all alike, so that the order of equals decides; with plan hashes."""
    built = cluster(strategy=strategy)
    for broker, held in (("b0", 90), ("b1", 40), ("b2", 20), ("b3", 20), ("b4", 20)):
        built.broker(broker, cpu=held)
        for _ in range(held):
            built.bundle(broker, cpu=1.0)
    for number in range(rounds):
        result = built.round()
        learned = hash_of(Learned(built.usage, number))
        print(strategy, number, learned, result.plan_hash, len(moves_of(result)))
        built.later()


if __name__ == "__main__":
    print("features", *list_features())
    for name in ("steady", "headroom"):
        play_equals(name, int(sys.argv[1]))
    for name in sys.argv[2:]:
        play_field(name, int(sys.argv[1]))
