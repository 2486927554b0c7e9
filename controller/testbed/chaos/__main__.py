"""`python -m controller.testbed.chaos`: so many minutes of storms over a whole system, and what became of it.

Exits with 1 if a message was lost, stored twice or reordered, if an invariant broke, if the system did not recover, or
took longer for failovers or hand-overs than it may. The same seed gives the same storms; when they strike depends on
the machine. `make chaos` also stores the figures of a full run (`benchmarks.measure.chaos`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from controller.domain.errors import BallastError
from controller.process.paths import RUN
from controller.testbed.chaos.acks import AckWatch
from controller.testbed.chaos.faults import possible_faults
from controller.testbed.chaos.plan import storms
from controller.testbed.chaos.run import Chaos
from controller.testbed.chaos.stage import Stage
from controller.testbed.chaos.verdict import Verdict, judge
from controller.testbed.demo.workload import Workload, base_rates
from controller.testbed.local_cluster import check_unused

READ_REST_S = 180.0
LEAST_AGENTS = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    given = arguments(argv)
    verdict = play(given)
    show(verdict, given.json)
    return 1 if verdict.wrong else 0


def play(given: argparse.Namespace) -> Verdict:
    """One run."""
    folder = given.dir or RUN / f"chaos-{time.strftime('%Y%m%d-%H%M%S')}"
    check_unused(folder)
    print(f"chaos with seed {given.seed} for {given.minutes:g} minutes in {folder}", flush=True)
    began_s = time.monotonic()

    def tell(what: str) -> None:
        if what:
            print(f"  [{time.monotonic() - began_s:5.0f} s] {what}", flush=True)

    with Stage(folder, given.agents, lambda doing: None) as stage:
        tell("everything starts")
        stage.up()
        workload = Workload(stage.cluster)
        workload.create()
        workload.start(base_rates(given.agents))
        kinds = possible_faults(stage)
        acks = AckWatch(workload.logs[-1])  # the producer starts last
        chaos = Chaos(stage, storms(given.seed, stage.agents, kinds), kinds, tell, acks)
        unrecovered = []
        try:
            chaos.run(60 * given.minutes)
        except BallastError as error:
            unrecovered = [str(error)]
        tell("the clients read the rest")
        workload.stop(READ_REST_S)
        verdict = judge(stage, workload, chaos.record, given.minutes, kinds)
    about = {"minutes": given.minutes, "seed": given.seed, "agents": given.agents}
    return Verdict({**about, **verdict.figures}, [*unrecovered, *verdict.wrong])


def show(verdict: Verdict, as_json: bool) -> None:
    """Print the figures, and what was wrong."""
    for name, value in verdict.figures.items():
        print(f"{name:>24}  {value}")
    for sentence in verdict.wrong:
        print(f"WRONG: {sentence}")
    if as_json:
        print(json.dumps({**verdict.figures, "wrong": verdict.wrong}))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long new storms begin (default 20)")
    parser.add_argument(
        "--seed",
        type=int,
        default=int(datetime.now(timezone.utc).strftime("%Y%m%d")),
        help="of the storms; by default the date",
    )
    parser.add_argument("--agents", type=int, default=5, help="brokers, at least 4 (default 5)")
    parser.add_argument("--dir", type=Path, help="folder of the run, which is kept")
    parser.add_argument("--json", action="store_true", help="the figures as JSON, in the last line")
    given = parser.parse_args(argv)
    if given.agents < LEAST_AGENTS:
        parser.error(f"--agents {given.agents}: give at least {LEAST_AGENTS}, so that storms have somebody to spare")
    return given


if __name__ == "__main__":
    sys.exit(main())
