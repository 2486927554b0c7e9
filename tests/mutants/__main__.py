"""`python -m tests.mutants [NAME…]`: plants every bug, or those whose names contain NAME, and runs their tests.

A bug is caught by a test that fails and is named, of those that `make test` runs, and by nothing else. Exit code 1 if a
bug survived its tests, or its patch does not apply any more, or its tests do not run or do not end; 2 if the tests fail
without any bug.

With `--simulated SEEDS` no test runs: the simulated deployment alone must find the bugs of the ownership protocol, at
least LEAST_SHARE of them, each by a seed that fails with it; the same seeds run without any bug first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from controller.process.paths import CODE as ROOT
from tests.mutants.mutant import Mutant, read_mutants
from tests.mutants.workshop import FAILED, PASSED, Run, Workshop

CAUGHT, SURVIVED, STALE, BROKEN = "caught", "SURVIVED", "STALE", "BROKEN"
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


def check(mutants: Sequence[Mutant], folder: Path, jobs: int, seeds: int | None = None, root: Path = ROOT) -> int:
    """Plant the mutants one by one in each of `jobs` copies of `root` below `folder`; print what became of them; return
    the exit code. `seeds`: of the simulation, in place of tests."""
    free: SimpleQueue[Workshop] = SimpleQueue()
    for number in range(jobs):
        free.put(Workshop(folder / str(number), root))

    def judge(mutant: Mutant) -> str:
        workshop, began = free.get(), time.monotonic()
        try:
            verdict, detail = _judge(workshop, mutant, seeds)
        finally:
            free.put(workshop)
        took_s = time.monotonic() - began
        print(f"{verdict:<9} {mutant.name} ({took_s:.0f} s){': ' if detail else ''}{detail}", flush=True)
        return verdict

    def pass_without_bug(share: Sequence[str] | range) -> str:
        workshop = free.get()
        try:
            return _find_trouble(workshop, share)
        finally:
            free.put(workshop)

    with ThreadPoolExecutor(jobs) as pool:
        shares = _shares(mutants, jobs, seeds)
        troubles = [trouble for trouble in pool.map(pass_without_bug, shares) if trouble]
        if troubles:
            print("\n".join(troubles))
            return 2
        verdicts = Counter(pool.map(judge, mutants))
    print(f"{verdicts[CAUGHT]} of {len(mutants)} mutants caught")
    if verdicts[STALE] or verdicts[BROKEN]:
        return 1
    return 0 if verdicts[CAUGHT] >= (LEAST_SHARE if seeds else 1.0) * len(mutants) else 1


def _shares(mutants: Sequence[Mutant], jobs: int, seeds: int | None) -> list[Sequence[str] | range]:
    """What each copy runs without any bug: of the tests, or of the seeds."""
    if seeds:
        return [range(1 + n * seeds // jobs, 1 + (n + 1) * seeds // jobs) for n in range(jobs)]
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    return [tests[n::jobs] for n in range(jobs)]


def _find_trouble(workshop: Workshop, share: Sequence[str] | range) -> str:
    """Why nothing can be said about mutants in this copy; empty if its share of the tests or seeds passes in it."""
    loaded = workshop.source_of("controller")
    if not loaded.is_relative_to(workshop.folder):
        return f"the copy in {workshop.folder} would test {loaded}: is PYTHONPATH or PYTHONSAFEPATH set?"
    if not share:
        return ""
    run = _run(workshop, share, keep_bytecode=True)
    return "" if run.code == PASSED else f"{run.output}\n{_what(share)} fail without any bug"


def _run(workshop: Workshop, share: Sequence[str] | range, *, keep_bytecode: bool = False) -> Run:
    if isinstance(share, range):
        return workshop.simulate(share, keep_bytecode=keep_bytecode)
    return workshop.run(share, keep_bytecode=keep_bytecode)


def _judge(workshop: Workshop, mutant: Mutant, seeds: int | None) -> tuple[str, str]:
    share = range(1, seeds + 1) if seeds else mutant.tests
    try:
        with workshop.planted(mutant):
            run = _run(workshop, share)
    except ValueError as error:
        return STALE, str(error)
    if run.code in (FAILED, None) and run.failed:
        return CAUGHT, run.failed
    if run.code == PASSED:
        return SURVIVED, mutant.bug
    ended = "did not end" if run.code is None else f"ended with {run.code}"
    return BROKEN, f"{_what(share)} {ended}, and none of them failed: {run.output[-500:]}"


def _what(share: Sequence[str] | range) -> str:
    return "the seeds" if isinstance(share, range) else "the tests"


if __name__ == "__main__":
    sys.exit(main())
