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
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure.result import flatten
from benchmarks.pages import pulsar_compare as page
from benchmarks.pulsar_compare import result
from benchmarks.pulsar_compare.calibration import calibrate
from benchmarks.pulsar_compare.load import GUESS
from benchmarks.pulsar_compare.play import WARM_UP_S, PhasesPlay, Stage
from benchmarks.pulsar_compare.plays import PLAYS, QUIET
from benchmarks.pulsar_compare.unloads import UNLOADS, Unloads
from controller.domain.errors import BallastError
from controller.process.paths import RUN
from controller.testbed.pulsar.spec import PulsarFailed

PHASE_MINUTES = 4.0
BULKY = ("by_minute", "changes", "cpu_samples")


def main(argv: Sequence[str]) -> int:
    """Play; return 1 if a play could not be played to its end."""
    given = _arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinding stops the processes
    trying = given.minutes_per_phase != PHASE_MINUTES
    runs = [_Run(name, given, trying) for name in given.play or [result.CALIBRATION, *PLAYS]]
    return max([run.run() for run in runs], default=0)


class _Run:
    """One play, or the calibration: not at all if there is a result of it."""

    def __init__(self, name: str, given: argparse.Namespace, trying: bool) -> None:
        self.name, self.given, self.trying = name, given, trying
        self.part = min(1.0, given.minutes_per_phase / PHASE_MINUTES)  # of warm-ups and numbers, too
        self.began_s = time.monotonic()

    def run(self) -> int:
        """Play and store; returns the exit code."""
        stored = result.FOLDER / f"{self.name}.json"
        if stored.exists() and not self.trying:
            print(f"{self.name}: played before; remove {stored} to play it again", flush=True)
            return 0
        folder = (self.given.dir or RUN) / f"compare-{self.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        print(f"{self.name}: running in {folder}", flush=True)
        self.began_s = time.monotonic()
        try:
            figures = self._calibrate(folder) if self.name == result.CALIBRATION else self._play(folder)
        except BallastError as error:
            print(f"{self.name}: could not be played to its end: {error}", file=sys.stderr, flush=True)
            return 1
        for path, value in flatten({name: value for name, value in figures.items() if name not in BULKY}):
            print(f"{self.name}: {path} = {value}", flush=True)
        if self.trying:
            (folder / "result.json").write_text(json.dumps(figures, indent=2) + "\n")
            print(f"{self.name}: a try; in {folder / 'result.json'} only", flush=True)
            return 0
        print(f"{self.name}: written to {result.store(self.name, figures)}", flush=True)
        page.refresh()
        if not self.given.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return 0

    def _calibrate(self, folder: Path) -> dict[str, Any]:
        guess = replace(GUESS, broker_cores=self.given.broker_cores)
        with Stage(QUIET, folder, guess, self._tell).open() as stage:
            return calibrate(stage, WARM_UP_S * self.part)

    def _play(self, folder: Path) -> dict[str, Any]:
        """The figures of a play."""
        play, volume = PLAYS[self.name], result.read_volume()
        if volume is None:
            if not self.trying:
                raise PulsarFailed(f"the load was not measured yet: run the play {result.CALIBRATION} first")
            volume = GUESS
        with Stage(play, folder, volume, self._tell).open() as stage:
            before_s, began_s = stage.ballast.cpu_used_s() if stage.ballast else {}, time.monotonic()
            figures = {**result.describe(play, volume), "minutes_per_phase": self.given.minutes_per_phase}
            figures |= self._play_unloads(stage) if play.unloads else self._play_phases(stage)
            if stage.ballast is not None:
                figures["ballast"] = result.ballast_part(stage.ballast, before_s, time.monotonic() - began_s)
        return figures

    def _play_phases(self, stage: Stage) -> dict[str, Any]:
        played = PhasesPlay(stage, self.given.minutes_per_phase)
        return result.balance(played, played.run(WARM_UP_S * self.part))

    def _play_unloads(self, stage: Stage) -> dict[str, Any]:
        unloads = Unloads(stage, max(4, round(UNLOADS * self.part)))
        report = unloads.run(WARM_UP_S * self.part)
        return {**unloads.figures(report), "clients": report.document()}

    def _tell(self, doing: str) -> None:
        if doing:
            print(f"  [{time.monotonic() - self.began_s:5.0f} s] {doing}", flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pulsar_compare", description=__doc__)
    parser.add_argument(
        "--play", action="append", choices=[result.CALIBRATION, *PLAYS], help="only this play; repeatable"
    )
    parser.add_argument(
        "--minutes-per-phase",
        type=float,
        default=PHASE_MINUTES,
        help=f"for a try, which is not stored among the results (default {PHASE_MINUTES:g})",
    )
    parser.add_argument(
        "--broker-cores",
        type=float,
        default=GUESS.broker_cores,
        help="CPU quota of each broker, which the calibration settles for all plays (default %(default)g)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs: logs, tables")
    parser.add_argument("--dir", type=Path, help=f"parent folder of the runs (default {RUN})")
    return parser.parse_args(argv)
