"""How long a round takes: 1,000 brokers x 100 bundles, and how that grows. `python -m benchmarks.measure.policy.round`

Loads are lognormal and seeded. Besides milliseconds there are two figures that hold on other machines: the time of a
round as a multiple of the time to sort the same bundle names in Python, and the growth from each size to the next.
Rounds with and without moves are counted separately.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure.figures import write
from controller.domain.ids import Bundle, Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.ownership import Ownership, State
from controller.domain.state import LIVE, Broker, ClusterState
from controller.policy.round import RoundInputs, run_round
from controller.policy.view.tabulate import tabulate

SIZES = ((125, 100), (250, 100), (500, 100), (1_000, 100))  # brokers, bundles a broker
ROUNDS = 5
NOW_MS = 1_700_000_000_000


def synthetic(brokers: int, bundles: int, spread: float, seed: int = 7) -> RoundInputs:
    """A journaled cluster whose brokers' CPU is 50 % x lognormal(spread), in lognormal bundles."""
    rng = np.random.default_rng(seed)
    names = np.array([f"broker-{i:05d}:8080" for i in range(brokers)], object)
    state = ClusterState(seq=1, mode=LIVE)
    for name in names:
        session = Session(name, 1, "n", 1)
        state.brokers[name], state.sessions[session] = Broker(name, session), 1
    width = 2**32 // bundles
    ranges = [(i * width, (i + 1) * width if i + 1 < bundles else 2**32 - 1) for i in range(bundles)]
    every = [Bundle(f"tenant/ns-{b:05d}", low, high) for b in range(brokers) for low, high in ranges]
    for at, bundle in enumerate(every):
        session = state.brokers[names[at // bundles]].session
        state.bundles[str(bundle)] = Ownership(bundle, State.OWNED, 1, by=session, ever_owned=True)
    load = rng.lognormal(0, 1, (brokers, bundles))
    load *= (np.minimum(50 * rng.lognormal(0, spread, brokers), 99) / load.sum(axis=1))[:, None]
    return RoundInputs("bench", NOW_MS, state, _broker_load(names, load), _bundle_load(names, every, load))


def time_ms(work: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def measure(brokers: int, bundles: int) -> dict[str, Any]:
    """Median figures of one size: a balanced cluster, and a skewed one in the round that moves."""
    result: dict[str, Any] = {"brokers": brokers, "bundles": brokers * bundles}
    for name, spread in (("calm", 0.005), ("moving", 0.3)):
        inputs = synthetic(brokers, bundles, spread)
        inputs.state.round_memory = dict(run_round(inputs).memory)
        outcome = run_round(inputs)
        result[f"{name}_moves"] = sum(d.kind.value == "transfer" for d in outcome.decisions)
        result[f"{name}_sources"] = sum(row["source"] for row in outcome.scores)
        result[f"{name}_ms"] = _median(lambda inputs=inputs: run_round(inputs))  # type: ignore[misc]
    result["stored_bytes"] = len(json.dumps(outcome.inputs))
    result["tabulate_ms"] = _median(
        lambda: tabulate(inputs.state, inputs.brokers, inputs.bundles, inputs.at_ms, inputs.lagging)
    )
    shuffled = np.random.default_rng(1).permutation(inputs.bundles["bundle"]).tolist()
    sort_ms = _median(lambda: sorted(shuffled))
    result["sort_names_ms"] = sort_ms
    result["moving_in_sorts"] = round(result["moving_ms"] / sort_ms, 2)
    return result


def main() -> int:
    """Measure every size, print a line each, write the figures."""
    rows = [measure(*size) for size in SIZES]
    for before, row in zip([None, *rows], rows, strict=False):
        row["growth"] = round(row["moving_ms"] / before["moving_ms"], 2) if before else None
        print(" ".join(f"{key}={value}" for key, value in row.items()))
    print(f"written to {write('round', {'rounds_a_size': ROUNDS, 'sizes': rows})}")
    return 0


def _median(work: Callable[[], Any]) -> float:
    return round(float(np.median([time_ms(work) for _ in range(ROUNDS)])), 2)


def _broker_load(names: np.ndarray[Any, Any], load: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    count = len(names)
    columns: dict[str, np.ndarray[Any, Any]] = {
        f"{r}_{w}": np.full(count, np.nan) for r in RESOURCES for w in ("usage", "limit")
    }
    columns |= {"broker": names, "incarnation": np.ones(count, np.int64), "reports": np.full(count, 12)}
    columns |= {"last_event_ms": np.full(count, NOW_MS - 1_000), **_traffic(load.sum(axis=1))}
    return columns | {"cpu_usage": load.sum(axis=1), "cpu_limit": np.full(count, 100.0)}


def _bundle_load(
    names: np.ndarray[Any, Any], bundles: list[Bundle], load: np.ndarray[Any, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    order = np.random.default_rng(2).permutation(len(bundles))
    text = np.array([str(b) for b in bundles], object)
    spaces = np.array([b.namespace for b in bundles], object)
    columns = {"bundle": text, "namespace": spaces, "broker": np.repeat(names, load.shape[1])}
    columns |= {"reports": np.full(len(bundles), 12), **_traffic(load.ravel())}
    return {name: values[order] for name, values in columns.items()}


def _traffic(points: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Messages and bytes in proportion to CPU; everything else nil."""
    columns = {name: np.zeros(len(points)) for name in BUNDLE_FIELDS}
    per_point = {"msg_rate_in": 50, "msg_rate_out": 50, "throughput_in": 5e4, "throughput_out": 5e4, "topics": 1.0}
    return columns | {name: points * factor for name, factor in per_point.items()}


if __name__ == "__main__":
    sys.exit(main())
