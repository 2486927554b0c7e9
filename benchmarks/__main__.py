"""`python -m benchmarks [NAME…]`: runs all or the named benchmarks, prints their figures, writes benchmarks/results/.

`python -m benchmarks strategy_field` has options of its own if it is the only one named. So has `pulsar_compare`, which
takes hours. That one and `pulsar_demo`, on a real Pulsar cluster, only run when they are named.

Exit code 1 if a run broke an invariant or failed; with `--strict` also if it missed a target. `--quick` runs a small
version to check that everything works; it prints its figures but does not store them.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure.clients import failover, handover, mass_lookups, rolling_restart, skew_to_relief
from benchmarks.measure.control import commit_in_store, control_latency, control_stages, start_up, step_scale
from benchmarks.measure.figures import write
from benchmarks.measure.loads import cluster_scale, cluster_writers, loads_throughput, report_latency, report_scale
from benchmarks.measure.policy import backtest_speed, decide_speed, strategy_field
from benchmarks.measure.policy import round as round_bench
from benchmarks.measure.pulsar import pulsar_demo, pulsar_poll
from benchmarks.measure.result import Result
from benchmarks.measure.ui import command_times, page_in_browser, page_views
from benchmarks.pages import performance as page
from benchmarks.pulsar_compare import program as pulsar_compare
from controller.domain.errors import BallastError
from controller.process.paths import RUN


def _round(folder: Path, quick: bool) -> Result:
    """Measure rounds by size, as the program `benchmarks.measure.policy.round` does."""
    rows = [round_bench.measure(*size) for size in (round_bench.SIZES[:1] if quick else round_bench.SIZES)]
    for before, row in zip([None, *rows], rows, strict=False):
        row["growth"] = round(row["moving_ms"] / before["moving_ms"], 2) if before else None
    return Result("round", {"rounds_a_size": round_bench.ROUNDS, "sizes": rows})


BENCHMARKS: dict[str, Callable[[Path, bool], Result]] = {
    "round": _round,
    "handover": handover.run,
    "failover": failover.run,
    "control_latency": control_latency.run,
    "control_scale": control_latency.run_large,
    "report_latency": report_latency.run,
    "report_scale": report_scale.run,
    "control_stages": control_stages.run,
    "loads_throughput": loads_throughput.run,
    "cluster_scale": cluster_scale.run,
    "cluster_writers": cluster_writers.run,
    "skew_to_relief": skew_to_relief.run,
    "start_up": start_up.run,
    "rolling_restart": rolling_restart.run,
    "mass_lookups": mass_lookups.run,
    "step_scale": step_scale.run,
    "commit_in_store": commit_in_store.run,
    "strategy_field": strategy_field.run,
    "decide_speed": decide_speed.run,
    "backtest_speed": backtest_speed.run,
    "pulsar_poll": pulsar_poll.run,
    "pulsar_demo": pulsar_demo.run,
    "page_views": page_views.run,
    "page_in_browser": page_in_browser.run,
    "command_times": command_times.run,
}
ON_REQUEST = frozenset({"pulsar_demo"})


PROGRAMS: dict[str, Callable[[Sequence[str]], int]] = {
    "pulsar_compare": pulsar_compare.main,
    "strategy_field": strategy_field.main,
}


def main(argv: Sequence[str]) -> int:
    """Run the benchmarks one after another; return the exit code."""
    if argv and argv[0] in PROGRAMS and not set(argv[1:]) & set(BENCHMARKS):
        return PROGRAMS[argv[0]](argv[1:])
    given = _arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinding stops the cluster's processes
    worst = 0
    for name in given.names or [name for name in BENCHMARKS if name not in ON_REQUEST]:
        folder = (given.dir or RUN) / f"bench-{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        print(f"{name}: running in {folder}", flush=True)
        try:
            result = BENCHMARKS[name](folder, given.quick)
        except BallastError as error:
            print(f"{name}: could not be measured: {error}", file=sys.stderr, flush=True)
            worst = 1
            continue
        _show(result, given.quick)
        worst = max(worst, 1 if result.broken or (given.strict and not result.reached) else 0)
        if not given.keep and not result.broken and folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
    return worst


def _show(result: Result, quick: bool) -> None:
    for line in result.lines():
        print(line, flush=True)
    if not quick:
        print(f"{result.name}: written to {write(result.name, result.document())}", flush=True)
        page.refresh()


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Ballast on this machine.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"any of {', '.join(BENCHMARKS)}; default: all but {', '.join(ON_REQUEST)}. "
        f"With options of its own, alone: {', '.join(PROGRAMS)}",
    )
    parser.add_argument("--quick", action="store_true", help="small sanity runs; figures are not stored")
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a target is missed")
    parser.add_argument("--keep", action="store_true", help="keep the run's folder: tables, logs, store")
    parser.add_argument("--dir", type=Path, help=f"parent folder of the runs (default {RUN})")
    given = parser.parse_args(argv)
    unknown = sorted(set(given.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
