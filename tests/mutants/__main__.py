"""`python -m tests.mutants [NAME…]`: plants every bug, or those whose names contain NAME, and runs their tests.

Exit code 1 if a bug survived its tests, or its patch does not apply any more, or its tests do not run; 2 if the tests
fail without any bug.

With `--simulated SEEDS` no test runs: the simulated deployment alone must find the bugs of the ownership protocol, at
least LEAST_SHARE of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutant import Mutant, read_mutants
from tests.mutants.workshop import CAUGHT, SURVIVED, Run, Workshop

LEAST_SHARE = 0.7
OF_THE_PROTOCOL = (
    "breaker", "commits", "epochs", "feed", "fences", "hand-over", "leases", "leave", "snapshots", "splits",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests catch known bugs?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a mutant's name, such as leases; all without")
    parser.add_argument("--jobs", type=int, default=2, help="bugs planted at a time, each in a copy of its own")
    parser.add_argument("--simulated", type=int, metavar="SEEDS", help="no tests, but so many simulated seeds")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    given = parser.parse_args(argv)
    mutants = read_mutants(tuple(given.names))
    if given.simulated:
        mutants = [mutant for mutant in mutants if mutant.name.split("/")[0] in OF_THE_PROTOCOL]
    if not mutants:
        parser.error(f"no mutant is named like {', '.join(given.names)}")
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name}: {mutant.bug}")
        return 0
    with tempfile.TemporaryDirectory(prefix="ballast-mutants-") as folder:
        return check(mutants, Path(folder), max(1, min(given.jobs, len(mutants))), given.simulated)


def check(mutants: Sequence[Mutant], folder: Path, jobs: int, seeds: int | None = None) -> int:
    """Plant the mutants one by one in each of `jobs` copies below `folder`; print what became of them. `seeds`: of the
    simulation, in place of tests."""
    free: SimpleQueue[Workshop] = SimpleQueue()
    for number in range(jobs):
        free.put(Workshop(folder / str(number)))

    def judge(mutant: Mutant) -> bool:
        workshop, began = free.get(), time.monotonic()
        try:
            verdict, detail = _judge(workshop, mutant, seeds)
        finally:
            free.put(workshop)
        took_s = time.monotonic() - began
        print(f"{verdict:<9} {mutant.name} ({took_s:.0f} s){': ' if detail else ''}{detail}", flush=True)
        return verdict == "caught"

    def pass_without_bug(tests: Sequence[str]) -> str:
        workshop = free.get()
        try:
            return _find_trouble(workshop, tests)
        finally:
            free.put(workshop)

    tests = [] if seeds else sorted({test for mutant in mutants for test in mutant.tests})
    with ThreadPoolExecutor(jobs) as pool:
        troubles = [trouble for trouble in pool.map(pass_without_bug, [tests[n::jobs] for n in range(jobs)]) if trouble]
        if troubles:
            print("\n".join(troubles))
            return 2
        caught = list(pool.map(judge, mutants))
    print(f"{sum(caught)} of {len(caught)} mutants caught")
    return 0 if sum(caught) >= (LEAST_SHARE if seeds else 1.0) * len(caught) else 1


def _find_trouble(workshop: Workshop, tests: Sequence[str]) -> str:
    """Why nothing can be said about mutants in this copy; empty if the tests pass in it."""
    loaded = workshop.source_of("controller")
    if not loaded.is_relative_to(workshop.folder):
        return f"the copy in {workshop.folder} would test {loaded}: is PYTHONPATH or PYTHONSAFEPATH set?"
    if not tests:
        return ""
    run = workshop.run(tests, keep_bytecode=True)
    return "" if run.code == SURVIVED else f"{run.output}\nthe tests fail without any bug"


def _judge(workshop: Workshop, mutant: Mutant, seeds: int | None) -> tuple[str, str]:
    try:
        with workshop.planted(mutant):
            run: Run = workshop.simulate(seeds) if seeds else workshop.run(mutant.tests)
    except ValueError as error:
        return "STALE", str(error)
    if run.code is None:
        return "caught", "its tests do not end"
    if run.code == CAUGHT:
        return "caught", run.failed
    if run.code == SURVIVED:
        return "SURVIVED", mutant.bug
    return "BROKEN", f"it ended with {run.code}: {run.output[-500:]}"


if __name__ == "__main__":
    sys.exit(main())
