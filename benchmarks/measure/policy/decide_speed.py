"""How long `steady` takes for a round, by size, and how that grows. `python -m benchmarks.measure.policy.decide_speed`

In every size the cluster is the field's `big` (`controller/sim/field`): it begins unbalanced and drifts, and nobody
says what bundles cost. A round is what `ballast decide` does with a line that has been parsed: the frame, what the
usage model learns of it and makes of it, sufficiency, constraints, strategy, splits and pacing; and Python collects
garbage as seldom as there. Its moves are carried out; rounds with moves are counted separately. On a drifting cluster
of that size no round is quiet, so quiet rounds are those of the same cluster balanced and at rest. Besides the
wall-clock time the benchmark measures the CPU time, which a busy machine affects less, and the part of it in the
kernel: a virtual machine may have to ask its host for memory that a round uses first. Names of bundles and the line are
made before the clock starts.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.figures import percentile, write
from benchmarks.measure.result import Result, Target
from benchmarks.pages import performance as page
from controller.domain.settings.policy import PolicySettings
from controller.process.memory import settle_memory
from controller.sim.field.cluster import draw_cluster
from controller.sim.field.observation import Observer
from controller.sim.field.players import StrategyPlayer
from controller.sim.field.scenarios import Story, drifting, nothing

SIZES = ((25, 2_500), (50, 5_000), (100, 10_000), (200, 20_000), (400, 40_000), (800, 80_000))
REQUIRED = (200, 20_000)
LARGEST = (1_000, 1_000_000)
ROUNDS, LARGEST_ROUNDS = 40, 8
SEED = 3


def measure(brokers: int, bundles: int, rounds: int = ROUNDS, at_rest: bool = False) -> dict[str, Any]:
    """Milliseconds of rounds with and without moves, from an unbalanced start, or of a balanced cluster at rest."""
    dice = np.random.default_rng([SEED, brokers])
    cluster = draw_cluster(dice, brokers, bundles)
    if at_rest:
        cluster.pack()
    story = Story(cluster, nothing) if at_rest else drifting(cluster, dice)
    observer = Observer(cluster, dice)
    settings = PolicySettings(strategy="steady")
    player = StrategyPlayer("steady", replace(settings, split=replace(settings.split, enabled=False)), observer)
    times: dict[bool, list[float]] = {True: [], False: []}
    cpu: list[float] = []
    kernel: list[float] = []
    moves = 0
    for number in range(rounds):
        seen = observer.observe(number, story.happen(number))
        start, on_cpu, in_kernel = time.perf_counter(), time.process_time(), _in_kernel_s()
        moved = player.decide(seen)
        spent_ms = (time.perf_counter() - start) * 1000
        cpu.append((time.process_time() - on_cpu) * 1000)
        kernel.append((_in_kernel_s() - in_kernel) * 1000)
        for bundle, broker in moved:
            cluster.owner[bundle] = broker
        times[bool(moved)].append(spent_ms)
        moves += len(moved)
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
        "kernel_worst_ms": round(max(kernel), 2),
        "moving_p50_ms": round(percentile(times[True], 50), 2) if times[True] else None,
        "quiet_p50_ms": round(percentile(times[False], 50), 2) if times[False] else None,
    }


def _in_kernel_s() -> float:
    """CPU of this process in the kernel, most of which goes into new memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def figures(sizes: Sequence[tuple[int, int]], largest: bool) -> dict[str, Any]:
    """The figures of all sizes, and for the largest one also the peak resident memory of this process."""
    settle_memory()
    rows = [measure(*size) for size in sizes]
    for before, row in zip([None, *rows], rows, strict=False):
        row["growth"] = round(row["cpu_worst_ms"] / before["cpu_worst_ms"], 2) if before else None
    result: dict[str, Any] = {"sizes": rows}
    result["required"] = next((row for row in rows if (row["brokers"], row["bundles"]) == REQUIRED), rows[-1])
    result["quiet"] = measure(result["required"]["brokers"], result["required"]["bundles"], at_rest=True)
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
    targets = [Target("required.moving_p50_ms", 100, "ms"), Target("required.worst_ms", 200, "ms")]
    if found["quiet"]["quiet_p50_ms"] is not None:
        targets.append(Target("quiet.quiet_p50_ms", 20, "ms"))
    if "largest" in found:
        targets += [Target("largest.worst_ms", 1_500, "ms"), Target("largest.peak_gib", 2, "GiB")]
    return Result("decide_speed", found, targets)


def main(argv: Sequence[str]) -> int:
    """Print a line for each size. The figures are stored if all sizes ran."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure.policy.decide_speed", description=__doc__)
    parser.add_argument("--only", help="BROKERSxBUNDLES: one size, nothing kept")
    given = parser.parse_args(argv)
    if given.only:
        settle_memory()
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
