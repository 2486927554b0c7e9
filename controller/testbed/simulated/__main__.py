"""`python -m controller.testbed.simulated`: many seeds of the simulated deployment, or one of them again.

Prints how often each fault struck, so that one that never happens is noticed, and for the first failing seeds the
smallest trace and the command that runs it again. Exits with 1 if any failed, or if of many seeds too few had one of
the faults.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from multiprocessing import get_context

from controller.testbed.simulated.messages import ACKNOWLEDGED, CONFIRMED, HAND_OVER, PUBLISHED, READ, READ_AGAIN
from controller.testbed.simulated.nemesis import ALL_FAULTS
from controller.testbed.simulated.runs import Run, run_seed, shrink

MODULE = "controller.testbed.simulated"
SHRUNK = 3  # failing seeds that are made smaller
FRESH_AFTER = 200  # runs of a process
RARE_PCT, ENOUGH = 5.0, 400  # of the seeds; in how many that is no accident


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    given = _arguments(argv)
    if given.seed is not None:
        return _again(given.seed, given.only)
    first = _of_today() if given.of_today else given.first
    seeds, began_s = range(first, first + given.seeds), time.monotonic()
    if given.until_failure:
        return _until_failure(seeds)
    runs = _run_all(seeds, given.processes)
    rare = _tell(runs, time.monotonic() - began_s)
    failing = [run for run in runs if run.failure]
    for run in failing[:SHRUNK]:
        smallest, faults = shrink(run)
        print(f"\nseed {run.seed}: {smallest.failure}\nof {ALL_FAULTS} faults, {len(faults)} are enough:")
        print("\n".join(smallest.trace))
        print(repeat_with(run.seed, faults))
    return 1 if failing or (rare and len(runs) >= ENOUGH) else 0


def repeat_with(seed: int, faults: Iterable[int]) -> str:
    """The line with the command that repeats a run with these faults alone."""
    return f"again: python -m {MODULE} --seed {seed} --only={','.join(map(str, faults))}"


def _run_all(seeds: Iterable[int], processes: int) -> list[Run]:
    if processes == 1:
        return [run_seed(seed) for seed in seeds]
    context = get_context("forkserver")  # which imports everything once, for all processes
    context.set_forkserver_preload([run_seed.__module__])
    with context.Pool(processes, maxtasksperchild=FRESH_AFTER) as pool:
        return sorted(pool.imap_unordered(run_seed, seeds), key=lambda run: run.seed)


def _until_failure(seeds: Iterable[int]) -> int:
    """One after the other, without more ado."""
    for seed in seeds:
        run = run_seed(seed)
        if run.failure:
            print(f"seed {seed} FAILED: {run.failure}")
            return 1
    return 0


def _again(seed: int, only: Sequence[int] | None) -> int:
    run = run_seed(seed, only, trace=True)
    print("\n".join(run.trace))
    print(run.failure or f"seed {seed} is clean; settled after {run.settled_ms / 1000:.0f} s")
    return 1 if run.failure else 0


def _tell(runs: Sequence[Run], took_s: float) -> list[str]:
    """Print what came of the runs; returns what is rare, of all that was to happen."""
    clean = sum(not run.failure for run in runs)
    settled_s = sorted(run.settled_ms / 1000 for run in runs if not run.failure)
    hours = sum(run.virtual_ms for run in runs) / 3_600_000
    print(f"seeds {runs[0].seed} to {runs[-1].seed}: {clean} of {len(runs)} clean, {hours:.1f} simulated hours "
          f"in {took_s:.0f} s ({len(runs) / took_s:.1f} seeds/s)")  # fmt: skip
    if settled_s:
        print(
            f"settled after the last fault: median {settled_s[len(settled_s) // 2]:.0f} s, most {settled_s[-1]:.0f} s"
        )
    _tell_messages(sum((run.messages for run in runs), Counter[str]()))
    rare = _tell_faults(runs)
    for run in runs:
        if run.failure:
            print(f"seed {run.seed} FAILED: {run.failure}")
    return rare


def _tell_faults(runs: Sequence[Run]) -> list[str]:
    """How often each struck, also those that never did; returns those that struck in few seeds."""
    struck, seeds = Counter[str](), Counter[str]()
    for run in runs:
        struck.update(run.struck)
        seeds.update(name for name, count in run.struck.items() if count)
    shares_pct = {name: 100 * seeds[name] / len(runs) for name, _ in struck.most_common()}
    rare = [name for name, share_pct in shares_pct.items() if share_pct < RARE_PCT]
    for name, share_pct in shares_pct.items():
        print(f"  {struck[name]:7}  in {share_pct:3.0f} % of seeds  {name}{'  RARE' if name in rare else ''}")
    return rare


def _tell_messages(counts: Counter[str]) -> None:
    """What clients saw, over all runs."""
    met = {name.removeprefix(HAND_OVER): count for name, count in counts.items() if name.startswith(HAND_OVER)}
    seen = [f"{counts[name]:,} {name}" for name in (PUBLISHED, ACKNOWLEDGED, READ, CONFIRMED, READ_AGAIN)]
    print(f"messages: {', '.join(seen)}")
    print(f"hand-overs that a producer met: {', '.join(f'{count:,} {cause}' for cause, count in sorted(met.items()))}")


def _of_today() -> int:
    """A seed of the date, so that every day tries others."""
    return int(datetime.now(timezone.utc).strftime("%Y%m%d")) * 1_000


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--seeds", type=int, default=400, help="how many (default 400)")
    parser.add_argument("--first", type=int, default=1, help="the first one (default 1)")
    parser.add_argument("--of-today", action="store_true", help="begin at a seed of the date instead")
    parser.add_argument("--until-failure", action="store_true", help="end with the first seed that fails")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="only this one, with its trace")
    parser.add_argument("--only", type=lambda text: [int(n) for n in text.split(",") if n], help="of its faults")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
