"""How long `steady` takes to decide, by size, and how that grows. `python -m benchmarks.measure.policy.decide_speed`

The benchmark starts from a snapshot and times what `ballast decide` calls decide_ms: sufficiency, constraints,
strategy, splits and pacing. At the largest size ids are indices and only the strategy is timed, since a million names
are a matter of parsing. Rounds are played with noise and their moves are carried out; rounds with moves are counted
separately. The first cluster has lognormal loads placed at random. Besides the wall-clock time the benchmark measures
the CPU time, which a busy machine affects less.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure.figures import percentile, write
from benchmarks.measure.result import Result, Target
from benchmarks.pages import performance as page
from controller.domain.decision import DecisionKind
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.settings.policy import PolicySettings, SplitSettings
from controller.domain.state import LIVE
from controller.policy.plan import make_plan
from controller.policy.strategies.steady.strategy import Steady
from controller.policy.view.frame import Frame
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Snapshot, scores, utilisation

SIZES = ((25, 2_500), (50, 5_000), (100, 10_000), (200, 20_000), (400, 40_000), (800, 80_000))
REQUIRED = (200, 20_000)
LARGEST = (1_000, 1_000_000)
ROUNDS, LARGEST_ROUNDS = 40, 8
MINUTE_MS, START_MS = 60_000, 1_700_000_000_000
NOISE = 0.03
SETTINGS = PolicySettings(
    strategy="steady",
    split=SplitSettings(False, max_topics=None, max_msg_rate_per_s=None, max_bandwidth_bytes_per_s=None),
)
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}
_CPU = RESOURCES.index("cpu")


class Cluster:
    """B brokers of 16 cores and N bundles, as the arrays that a round sees."""

    def __init__(self, brokers: int, bundles: int, seed: int = 3, sigma: float = 0.8) -> None:
        self.rng = np.random.default_rng(seed)
        self.brokers = tuple(f"broker-{at:05d}:8080" for at in range(brokers))
        self.limit = np.full((brokers, len(RESOURCES)), np.nan)
        self.limit[:, _CPU] = 1_600.0
        self.load = self.rng.lognormal(0.0, sigma, bundles)
        self.load *= 0.5 * 1_600.0 * brokers / self.load.sum()
        weight = self.rng.lognormal(0.0, 0.25, brokers)
        self.owner = self.rng.choice(brokers, bundles, p=weight / weight.sum()).astype(np.int64)
        self.moved_at = np.zeros(bundles, np.int64)
        self.sessions = np.rint(self.rng.lognormal(3.0, 1.0, bundles))
        self.at_ms = START_MS
        # a range object replaces the names, which nothing needs as text at this size
        self.names: Any = range(bundles) if bundles >= LARGEST[1] else _names(bundles)

    def snapshot(self) -> Snapshot:
        """The snapshot of this minute, measured with noise."""
        measured = self.load * self.rng.normal(1.0, NOISE, len(self.load))
        fields = np.zeros((len(self.load), len(BUNDLE_FIELDS)))
        for name, factor in (
            ("msg_rate_in", 500.0),
            ("msg_rate_out", 500.0),
            ("throughput_in", 5e5),
            ("throughput_out", 5e5),
        ):
            fields[:, _F[name]] = measured * factor
        fields[:, _F["topics"]] = 10.0
        fields[:, _F["sessions"]] = self.sessions
        cost = np.zeros((len(self.load), len(RESOURCES)))
        cost[:, _CPU] = measured
        count = len(self.brokers)
        totals = np.column_stack([np.bincount(self.owner, column, count) for column in fields.T])
        usage = np.full((count, len(RESOURCES)), np.nan)
        usage[:, _CPU] = np.bincount(self.owner, measured, count)
        weights = np.array(SETTINGS.weights.in_order())
        return self._assembled(fields, cost, totals, usage, weights)

    def carry_out(self, decisions: Sequence[Any]) -> int:
        """Apply the moves, advance by a minute, and return the number of moves."""
        place = {name: at for at, name in enumerate(self.brokers)}
        moves = [d for d in decisions if d.kind is DecisionKind.TRANSFER]
        index = {name: at for at, name in enumerate(self.names)} if moves and not isinstance(self.names, range) else {}
        for move in moves:
            at = index[move.bundle] if index else move.bundle
            self.owner[at], self.moved_at[at] = place[str(move.target)], self.at_ms
        self.at_ms += MINUTE_MS
        return len(moves)

    def _assembled(
        self, fields: NDArray[Any], cost: NDArray[Any], totals: NDArray[Any], usage: NDArray[Any], weights: NDArray[Any]
    ) -> Snapshot:
        count, bundles = len(self.brokers), len(self.load)
        allowed = np.full(count, ALLOWED, np.int64)
        grace = (self.moved_at > 0) & (self.at_ms - self.moved_at < SETTINGS.shed.grace_period_ms)
        return Snapshot(
            frame=self._frame(),
            at_ms=self.at_ms,
            weights=weights,
            brokers=self.brokers,
            incarnation=np.ones(count, np.int64),
            known=np.ones(count, bool),
            alive=np.ones(count, bool),
            reports=np.full(count, 12),
            last_event_ms=np.full(count, self.at_ms),
            usage=usage,
            limit=self.limit,
            utilisation=utilisation(usage, self.limit),
            score=scores(usage, self.limit, weights),
            totals=totals,
            source_block=allowed,
            target_block=allowed,
            bundles=self.names,
            owner=self.owner.copy(),
            epoch=np.ones(bundles, np.int64),
            moved_at_ms=self.moved_at.copy(),
            in_flight=np.zeros(bundles, bool),
            unowned=np.zeros(bundles, bool),
            displaced=np.zeros(bundles, bool),
            fields=fields,
            cost=cost,
            bundle_block=np.where(grace, 0, ALLOWED).astype(np.int64),
        )

    def _frame(self) -> Frame:
        """The parts of a frame that the policy reads besides the snapshot: mode, namespaces and facts of brokers."""
        resources, fields = (np.zeros((0, len(names)), np.int64) for names in (RESOURCES, BUNDLE_FIELDS))
        return Frame.of(
            self.at_ms,
            LIVE,
            self.brokers,
            self.names,
            broker={"incarnation": 1, "registered": 1, "alive": 1},
            bundle={},
            row={},
            usage=resources,
            limit=resources,
            totals=fields,
            row_fields=fields,
            namespace_bundles={},
        )


def _names(count: int) -> tuple[str, ...]:
    width = 2**32 // 64
    return tuple(
        f"tenant/ns-{at // 64:05d}/0x{at % 64 * width:08x}_0x{min((at % 64 + 1) * width, 2**32 - 1):08x}"
        for at in range(count)
    )


def measure(brokers: int, bundles: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Milliseconds of rounds with and without moves, from an unbalanced start."""
    cluster = Cluster(brokers, bundles)
    memory: Mapping[str, Any] = {}
    times: dict[bool, list[float]] = {True: [], False: []}
    cpu: list[float] = []
    moves = 0
    for _ in range(rounds):
        snapshot = cluster.snapshot()
        start, on_cpu = time.perf_counter(), time.process_time()
        if isinstance(cluster.names, range):
            outcome = Steady().decide(snapshot, memory, SETTINGS)
            decisions, memory = outcome.decisions, outcome.memory
        else:
            plan = make_plan(snapshot, "steady", memory, SETTINGS)
            decisions, memory = plan.decisions, plan.outcome.memory
        spent_ms = (time.perf_counter() - start) * 1000
        cpu.append((time.process_time() - on_cpu) * 1000)
        moved = cluster.carry_out(decisions)
        times[moved > 0].append(spent_ms)
        moves += moved
    everything = [*times[True], *times[False]]
    return {
        "brokers": brokers,
        "bundles": bundles,
        "moves": moves,
        "rounds_that_moved": len(times[True]),
        "p50_ms": round(percentile(everything, 50), 2),
        "worst_ms": round(max(everything), 2),
        "cpu_p50_ms": round(percentile(cpu, 50), 2),
        "cpu_worst_ms": round(max(cpu), 2),
        "moving_p50_ms": round(percentile(times[True], 50), 2) if times[True] else None,
        "quiet_p50_ms": round(percentile(times[False], 50), 2) if times[False] else None,
    }


def figures(sizes: Sequence[tuple[int, int]], largest: bool) -> dict[str, Any]:
    """The figures of all sizes, and for the largest one also the peak resident memory of this process."""
    rows = [measure(*size) for size in sizes]
    for before, row in zip([None, *rows], rows, strict=False):
        row["growth"] = round(row["cpu_worst_ms"] / before["cpu_worst_ms"], 2) if before else None
    result: dict[str, Any] = {"sizes": rows}
    result["required"] = next((row for row in rows if (row["brokers"], row["bundles"]) == REQUIRED), rows[-1])
    if largest:
        found = measure(*LARGEST, rounds=LARGEST_ROUNDS)
        found["peak_gib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
        result["largest"] = found
    return result


def run(folder: Path, quick: bool) -> Result:
    """Run the benchmark for `python -m benchmarks`."""
    return result_of(figures(SIZES[:2] if quick else SIZES, largest=not quick))


def result_of(found: dict[str, Any]) -> Result:
    """The figures with their targets."""
    targets = [Target("required.p50_ms", 20, "ms"), Target("required.worst_ms", 200, "ms")]
    if "largest" in found:
        targets += [Target("largest.worst_ms", 1_500, "ms"), Target("largest.peak_gib", 2, "GiB")]
    return Result("decide_speed", found, targets)


def main(argv: Sequence[str]) -> int:
    """Print a line for each size. The figures are stored if all sizes ran."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure.policy.decide_speed", description=__doc__)
    parser.add_argument("--only", help="BROKERSxBUNDLES: one size, nothing kept")
    given = parser.parse_args(argv)
    if given.only:
        brokers, bundles = (int(part) for part in given.only.split("x"))
        rounds = LARGEST_ROUNDS if bundles >= LARGEST[1] else ROUNDS
        print(measure(brokers, bundles, rounds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "MiB")
        return 0
    found = figures(SIZES, largest=True)
    for row in [*found["sizes"], found["largest"]]:
        print(" ".join(f"{key}={value}" for key, value in row.items()))
    print(f"written to {write('decide_speed', result_of(found).document())}")
    page.refresh()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
