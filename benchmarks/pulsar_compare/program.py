"""`python -m benchmarks pulsar_compare`: plays what has not been played yet, one play after the other.

Each play is stored when it ends, so the program may be interrupted and started again. It takes half an hour a play, a
machine with two cores that does nothing else, and cgroups that can be written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure.result import flatten
from benchmarks.pages import pulsar_compare as page
from benchmarks.pulsar_compare import result
from benchmarks.pulsar_compare.play import WARM_UP_S, PhasesPlay, Stage
from benchmarks.pulsar_compare.plays import PLAYS, Play
from benchmarks.pulsar_compare.unloads import UNLOADS, Unloads
from controller.domain.errors import BallastError
from controller.process.paths import RUN

PHASE_MINUTES = 4.0
BULKY = ("by_minute", "changes", "cpu_samples")


def main(argv: Sequence[str]) -> int:
    """Play; return 1 if a play could not be played to its end."""
    given = _arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinding stops the processes
    trying = given.minutes_per_phase != PHASE_MINUTES
    code = 0
    for name in given.play or PLAYS:
        play = PLAYS[name]
        if name in result.read_results() and not trying:
            print(f"{name}: played before; remove {result.FOLDER / name}.json to play it again", flush=True)
            continue
        folder = (given.dir or RUN) / f"compare-{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        print(f"{name}: running in {folder}", flush=True)
        try:
            figures = run_play(play, folder, given.minutes_per_phase)
        except BallastError as error:
            print(f"{name}: could not be played to its end: {error}", file=sys.stderr, flush=True)
            code = 1
            continue
        _show(play, figures)
        if trying:
            (folder / "result.json").write_text(json.dumps(figures, indent=2) + "\n")
            print(f"{name}: a try; in {folder / 'result.json'} only", flush=True)
        else:
            print(f"{name}: written to {result.store(play, figures)}", flush=True)
            page.refresh()
        if not (given.keep or trying):
            shutil.rmtree(folder, ignore_errors=True)
    return code


def run_play(play: Play, folder: Path, phase_minutes: float) -> dict[str, Any]:
    """Play one play; returns its figures. A try with short phases has a short warm-up and few unloads, too."""
    began_s = time.monotonic()
    part = min(1.0, phase_minutes / PHASE_MINUTES)

    def tell(doing: str) -> None:
        if doing:
            print(f"  [{time.monotonic() - began_s:5.0f} s] {doing}", flush=True)

    with Stage(play, folder, tell).open() as stage:
        warm_up_s = WARM_UP_S * part
        used_before, played_s = stage.ballast.cpu_used_s() if stage.ballast else {}, time.monotonic()
        if play.unloads:
            unloads = Unloads(stage, max(4, round(UNLOADS * part)))
            report = unloads.run(warm_up_s)
            figures = {**unloads.figures(report), "clients": report.document()}
        else:
            played = PhasesPlay(stage, phase_minutes)
            report = played.run(warm_up_s)
            figures = result.balance(played, report)
        figures = {**result.describe(play), "minutes_per_phase": phase_minutes, **figures}
        if stage.ballast is not None:
            lasted_s = time.monotonic() - played_s
            used = {name: s - used_before.get(name, 0.0) for name, s in stage.ballast.cpu_used_s().items()}
            figures["ballast"] = result.ballast_part(stage.ballast, used, lasted_s)
    return figures


def _show(play: Play, figures: dict[str, Any]) -> None:
    for path, value in flatten({name: value for name, value in figures.items() if name not in BULKY}):
        print(f"{play.name}: {path} = {value}", flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pulsar_compare", description=__doc__)
    parser.add_argument("--play", action="append", choices=list(PLAYS), help="only this play; repeatable")
    parser.add_argument(
        "--minutes-per-phase",
        type=float,
        default=PHASE_MINUTES,
        help=f"for a try, which is not stored among the results (default {PHASE_MINUTES:g})",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs: logs, tables")
    parser.add_argument("--dir", type=Path, help=f"parent folder of the runs (default {RUN})")
    return parser.parse_args(argv)
