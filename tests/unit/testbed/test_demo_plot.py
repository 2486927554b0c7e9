"""The demo's acts on the real round without its processes: however bundles fall, it ends evenly and calm.

Loads are true averages over the demo's horizon; what is moved is there at once, orphans go to the least loaded.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.published.clusters import ClusterBuilder, moves, splits
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.decision import RoundResult
from controller.domain.ids import topic_hash
from controller.domain.ring import initial_bundles, locate
from controller.testbed.demo.calm import ROUNDS, Standing
from controller.testbed.demo.scenario import CALM_WITHIN_S
from controller.testbed.demo.workload import (
    HOT_SHARE,
    NAMESPACES,
    SIZE_BYTES,
    TOPICS,
    base_rates,
    deliveries,
    heat_rates,
)

SETTINGS = load_settings(None, "demo", env={})
ROUND_S = SETTINGS.rounds.round_interval_s
HORIZON_ROUNDS = SETTINGS.loads.short_horizon_s // ROUND_S
POINTS_AN_OPERATION = SETTINGS.reference.cpu_us_per_message / 1e4  # percent of a core at one a second
RINGS = {namespace: initial_bundles(namespace, count) for namespace, count in NAMESPACES.items()}
BUNDLE_OF = {t: str(locate(RINGS["/".join(t.split("/")[2:4])], topic_hash(t))) for t in TOPICS}
TOPICS_OF = {b: [t for t in TOPICS if BUNDLE_OF[t] == b] for ring in RINGS.values() for b in map(str, ring)}
PATIENCE_ROUNDS = round(CALM_WITHIN_S) // ROUND_S


class Plot:
    """The cluster of one run."""

    def __init__(self, brokers: int, seed: int) -> None:
        self.built = ClusterBuilder(settings=policy_settings(SETTINGS))
        self.base = base_rates(brokers)
        self.rates = dict(self.base)
        self.names = [f"broker-{n}" for n in range(1, brokers + 1)]
        self.seen: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=HORIZON_ROUNDS))
        for name in self.names:
            self.built.broker(name)
        bundles = list(TOPICS_OF)
        random.Random(seed).shuffle(bundles)
        for at, bundle in enumerate(bundles):
            self.built.bundle(self.names[at % brokers], name=bundle, topics=float(len(TOPICS_OF[bundle])))

    def round(self) -> RoundResult:
        """The load of a round, what the strategy decides on it, and its moves carried out."""
        self.built.later(ROUND_S * 1000)
        for row in self.built.bundles:
            self.seen[row["bundle"]].append(sum(self.rates[t] * (1 + deliveries(t)) for t in TOPICS_OF[row["bundle"]]))
            row.update(traffic(sum(self.seen[row["bundle"]]) / len(self.seen[row["bundle"]])))
        for name, row in self.built.brokers.items():
            row.update(traffic(self.operations(name)), cpu_usage=self.operations(name) * POINTS_AN_OPERATION)
        result = self.built.round()
        assert not splits(result), "no bundle is too big"
        for move in moves(result):
            self.give(str(move.bundle), str(move.target), moved_at_ms=self.built.at_ms)
        return result

    def give(self, bundle: str, target: str, **changes: int) -> None:
        next(row for row in self.built.bundles if row["bundle"] == bundle)["broker"] = target
        held, session = self.built.state.bundles[bundle], self.built.state.brokers[target].session
        self.built.state.put(replace(held, epoch=held.epoch + 1, by=session, **changes))

    def operations(self, broker: str) -> float:
        """Messages in and out a second, on average."""
        return sum(row["msg_rate_in"] + row["msg_rate_out"] for row in self.held(broker))

    def held(self, broker: str) -> list[dict[str, Any]]:
        return [row for row in self.built.bundles if row["broker"] == broker]

    def heat(self, broker: str) -> None:
        held = {topic: row["bundle"] for row in self.held(broker) for topic in TOPICS_OF[row["bundle"]]}
        self.rates = {**self.base, **heat_rates(held, self.base, HOT_SHARE * 100 / POINTS_AN_OPERATION)}

    def join(self) -> None:
        self.names.append(f"broker-{len(self.names) + 1}")
        self.built.broker(self.names[-1])

    def kill(self) -> None:
        """The one with most bundles."""
        victim = max(self.names, key=lambda name: len(self.held(name)))
        self.names.remove(victim)
        self.built.state.sessions.pop(self.built.state.brokers[victim].session)
        del self.built.brokers[victim]
        for row in self.held(victim):
            self.give(row["bundle"], min(self.names, key=self.operations))

    def calm_after(self) -> int | None:
        """Rounds until nothing was to be done in as many as the demo asks for."""
        calm = 0
        for number in range(1, PATIENCE_ROUNDS + 1):
            result = self.round()
            quiet = not moves(result) and not any(self.standing(row).restless for row in self.living(result))
            calm = calm + 1 if quiet and number >= HORIZON_ROUNDS else 0
            if calm == ROUNDS:
                return number
        return None

    def standing(self, row: Any) -> Standing:
        return Standing.from_row({**row, "is_source": row["source"]}, SETTINGS.steady.tolerance)

    def living(self, result: RoundResult) -> list[Any]:
        return [row for row in result.scores if row["broker"] in self.names]


def traffic(operations: float) -> dict[str, float]:
    half = operations / 2
    rates = {"msg_rate_in": half, "msg_rate_out": half}
    return rates | {"throughput_in": half * SIZE_BYTES, "throughput_out": half * SIZE_BYTES}


@pytest.mark.parametrize(("brokers", "seed"), [(2, 0), (3, 1), (4, 2), (4, 3), (4, 8)])
def test_after_all_that_happened_the_cluster_is_even_and_calm(brokers: int, seed: int) -> None:
    plot = Plot(brokers, seed)
    for _ in range(HORIZON_ROUNDS):
        plot.round()
    hot = max(plot.names, key=lambda name: len(plot.held(name)))
    for broker in (hot, next(name for name in plot.names if name != hot)):
        plot.heat(broker)
        for _ in range(8):
            plot.round()
    plot.join()
    for _ in range(4):
        plot.round()
    assert plot.held(plot.names[-1]), "the newcomer got its share"
    plot.kill()
    assert plot.calm_after() is not None, Counter(row["reason"] for row in plot.living(plot.round()))
    scores = [row["score"] for row in plot.living(plot.round())]
    assert max(scores) <= 1.06 * sum(scores) / len(scores), "the tolerance is 5 %"
    assert min(scores) >= 0.85 * sum(scores) / len(scores)
