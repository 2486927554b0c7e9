"""How long `steady` takes for a round, by size, and how that grows. `python -m benchmarks.measure.policy.decide_speed`

In every size the cluster is the field's `big` (`controller/sim/field`): it begins unbalanced and drifts, and nobody
says what bundles cost. A round is what `ballast decide` does with a line that has been parsed: the frame, what the
usage model learns of it and makes of it, sufficiency, constraints, strategy, splits and pacing; and Python collects
garbage as seldom as there. To it belongs what the round worker does in a round besides: choosing which bundles of the
usage model are kept, and its hash. The worker writes the table after the round and reads it once, at its start; so both
are timed apart, here on a local disk. A round's moves are carried out; rounds with moves are counted separately. On a
drifting cluster of that size no round is quiet, so quiet rounds are those of the same cluster balanced and at rest.
Besides the wall-clock time the benchmark measures the CPU time, which a busy machine affects less, and the part of it
in the kernel: a virtual machine may have to ask its host for memory that a round uses first. Names of bundles and the
line are made before the clock starts.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
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
from controller.ledger.tables import TableRoot
from controller.ledger.usage_models import NAME as MODEL_TABLE
from controller.ledger.usage_models import read_model, write_model
from controller.policy.usage.kept import Learned, hash_of, keep_best_known
from controller.policy.usage.model import UsageModel
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


class KeptModel:
    """Keeps the usage model of each round in a table of its own, as the round worker does, and times it."""

    def __init__(self, folder: str) -> None:
        self._root = TableRoot(folder)
        self._root.create(MODEL_TABLE)
        self._hash = ""
        self._kept = Learned()
        self.keep_ms: list[float] = []
        self.write_ms: list[float] = []

    def keep(self, model: UsageModel, number: int) -> None:
        """What the round does: choose what is kept, and name it by its hash."""
        start = time.perf_counter()
        self._kept = Learned(keep_best_known(model), number)
        self._hash = hash_of(self._kept)
        self.keep_ms.append(_ms_since(start))

    def write(self) -> None:
        """What follows the round: replace the table."""
        start = time.perf_counter()
        write_model(self._root, self._kept, self._hash)
        self.write_ms.append(_ms_since(start))

    def read(self) -> float:
        """Milliseconds that a start takes for it."""
        start = time.perf_counter()
        found = read_model(self._root.again())
        took_ms = _ms_since(start)
        assert hash_of(found) == self._hash
        return took_ms

    def figures(self) -> dict[str, float]:
        """Milliseconds of each part."""
        return {
            "keep_p50_ms": round(percentile(self.keep_ms, 50), 2),
            "keep_worst_ms": round(max(self.keep_ms), 2),
            "write_p50_ms": round(percentile(self.write_ms, 50), 2),
            "write_worst_ms": round(max(self.write_ms), 2),
            "read_ms": round(self.read(), 2),
        }


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
    times = RoundTimes()
    with tempfile.TemporaryDirectory(prefix="ballast-decide-speed-") as folder:
        model = KeptModel(folder)
        for number in range(rounds):
            seen = observer.observe(number, story.happen(number))
            times.begin()
            moved = player.decide(seen)
            model.keep(player.usage, number)
            times.end(len(moved))
            model.write()
            for bundle, broker in moved:
                cluster.owner[bundle] = broker
        return {"brokers": brokers, "bundles": bundles, **times.figures(), **model.figures()}


class RoundTimes:
    """The times of rounds: of the clock, of the CPU, and of the kernel alone."""

    def __init__(self) -> None:
        self._rounds: dict[bool, list[float]] = {True: [], False: []}  # by whether they moved anything
        self._cpu: list[float] = []
        self._kernel: list[float] = []
        self._moves = 0

    def begin(self) -> None:
        """A round begins."""
        self._start, self._on_cpu, self._in_kernel = time.perf_counter(), time.process_time(), _in_kernel_s()

    def end(self, moves: int) -> None:
        """The round has decided on so many moves."""
        self._rounds[moves > 0].append(_ms_since(self._start))
        self._cpu.append((time.process_time() - self._on_cpu) * 1000)
        self._kernel.append((_in_kernel_s() - self._in_kernel) * 1000)
        self._moves += moves

    def figures(self) -> dict[str, Any]:
        """Milliseconds, and how many rounds moved how much."""
        moving, quiet = self._rounds[True], self._rounds[False]
        return {
            "moves": self._moves,
            "rounds_that_moved": len(moving),
            "p50_ms": round(percentile([*moving, *quiet], 50), 2),
            "worst_ms": round(max([*moving, *quiet]), 2),
            "cpu_p50_ms": round(percentile(self._cpu, 50), 2),
            "cpu_worst_ms": round(max(self._cpu), 2),
            "kernel_worst_ms": round(max(self._kernel), 2),
            "moving_p50_ms": round(percentile(moving, 50), 2) if moving else None,
            "quiet_p50_ms": round(percentile(quiet, 50), 2) if quiet else None,
        }


def _ms_since(start_s: float) -> float:
    return (time.perf_counter() - start_s) * 1000


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
