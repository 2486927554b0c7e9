"""`ballast backtest`: runs strategies and settings on recorded load to find out which serves the cluster best.

Finished points are kept: an interrupted run continues where it stopped, a second run only prints. docs/backtests.md
explains the figures.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from controller.backtest.choose.recommend import Recommendation
from controller.backtest.point.grid import GridPoint, points_to_run
from controller.backtest.point.result import PointRun
from controller.backtest.recording.input import Input, read_input, rules_text
from controller.backtest.recording.pace import pace_of
from controller.backtest.recording.prepared import Replay, prepare
from controller.backtest.report.configuration import check_values
from controller.backtest.report.knobs import KnobNames
from controller.backtest.report.names import Named, name_axes
from controller.backtest.report.report import CONF, REPORT, write_report
from controller.backtest.run import Finished, run_points
from controller.backtest.spark import job_arguments, spark_points
from controller.backtest.store import QUARANTINE, RESULTS_CSV, Job, Store
from controller.cli.backtest_table import emit_scoreboard
from controller.cli.choices import strategy_lists
from controller.cli.options import Conf, Profile, Sets, interrupt_on_sigterm, new_app, report_errors, settings_of
from controller.cli.show import emit_text
from controller.config.policy_values import policy_settings
from controller.config.settings import Settings
from controller.loads.recorded import Overrides
from controller.operations.text import count_text
from controller.process.paths import RUN
from controller.process.spark_submit import LOCAL_SPARK_CONF

app = new_app()
INTERRUPTED = 130  # the exit code that shells use

Reports = Annotated[
    str, typer.Option("--reports", help="JSON lines of load reports, or the root of the tables.", show_default=False)
]
Strategies = Annotated[
    str,
    typer.Option(
        "--strategies",
        help="Comma-separated, in the order of the table.",
        show_default=False,
        autocompletion=strategy_lists,
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option("--grid", help="knob=value,value; repeatable, all combinations run.", show_default=False),
]
Out = Annotated[Path, typer.Option("--out", help="Folder for results; finished points in it are not run again.")]
Spark = Annotated[bool, typer.Option("--spark", help="Run the points as Spark tasks with spark-submit.")]
SparkConf = Annotated[Path, typer.Option("--spark-conf", help="Spark properties file.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Number of processes; 0: one per core.", min=0)]
Step = Annotated[
    int | None, typer.Option("--step-ms", help="Step of the replay; by default the brokers' report interval.", min=1)
]
Gap = Annotated[int, typer.Option("--gap-ms", help="How long a bundle is not served when it moves.", min=0)]
Missed = Annotated[
    int, typer.Option("--missed-steps", help="A broker is gone after this many steps without a report.", min=1)
]


@app.command()
@report_errors
def backtest(
    reports: Reports, strategies: Strategies, grid: Grid = None, out: Out = RUN / "backtest", jobs: Jobs = 0,
    step_ms: Step = None, gap_ms: Gap = 1_000, missed_steps: Missed = 3,
    spark: Spark = False, spark_conf: SparkConf = LOCAL_SPARK_CONF,
    conf: Conf = None, profile: Profile = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Run strategies and settings on recorded load and print the scoreboard."""
    settings = settings_of(conf, profile, sets)
    base = policy_settings(settings)
    names = [name.strip() for name in strategies.split(",") if name.strip()]
    named = name_axes(grid or [], lambda more: settings_of(conf, profile, [*(sets or []), *more]))
    points = points_to_run(names, named.axes, base)
    check_values(
        {knob for point in points for knob in point.knobs},
        lambda more: settings_of(conf, profile, [*(sets or []), *more]),
    )
    pace = pace_of(reports, settings, step_ms)
    replay = Replay(pace.interval_ms, missed_steps, gap_ms)
    console, store = Console(stderr=True), Store(out)
    with store.alone(), _progress(console) as progress:
        found = _read(progress, reports, pace.step_ms, settings, out)
        job = Job(found.recording.digest(), base, replay)
        runs = {point: store.load(job, point) for point in points}
        kept = sum(run is not None for run in runs.values())
        missing = [point for point, run in runs.items() if run is None]
        if missing and not store.arrays(job).exists():
            store.keep_arrays(job, prepare(found.recording, base.weights.in_order(), replay))
        about = _about(reports, settings.description, found, job)
        del found
        if spark:
            arguments = job_arguments(store, job, ",".join(names), named.axes, conf, profile, sets or [])
            ended = spark_points(store, job, missing, arguments, spark_conf)
        else:
            ended = run_points(store, job, missing, jobs or os.cpu_count() or 1)
        stopped = _run(progress, missing, runs, ended)
    # adds points that a worker finished just before an interrupt
    runs = {point: run or store.load(job, point) for point, run in runs.items()}
    finished = [run for run in runs.values() if run is not None]
    store.write_tables(finished, about)
    unfinished = len(points) - len(finished)
    recommendation = write_report(out, finished, base, about, KnobNames(named.keys, named.words), unfinished)
    _print_step(step_ms, about["step_ms"])
    _print_results(about, finished, kept, out, named)
    _print_recommendation(recommendation, out)
    if stopped:
        typer.echo(f"ballast: stopped; {len(finished)} of {len(points)} points are kept in {out}", err=True)
        raise typer.Exit(INTERRUPTED)


def _read(progress: Progress, reports: str, step_ms: int | None, settings: Settings, out: Path) -> Input:
    task = progress.add_task("reading", total=100)
    return read_input(
        reports, step_ms, Overrides.of(settings), out / QUARANTINE,
        lambda part: progress.update(task, completed=round(100 * part)),
    )  # fmt: skip


def _run(
    progress: Progress, missing: Sequence[GridPoint], runs: dict[GridPoint, PointRun | None],
    ended: Generator[Finished, None, None],
) -> bool:  # fmt: skip
    """Run the missing points; return whether the run was interrupted."""
    task = progress.add_task("points", total=len(missing))
    try:
        with interrupt_on_sigterm(), closing(ended):  # whatever happens, no process keeps running
            for finished in ended:
                runs[finished.point] = finished.run
                progress.advance(task)
    except KeyboardInterrupt:
        return True
    return False


def _about(reports: str, configuration: str, found: Input, job: Job) -> dict[str, Any]:
    """What was run, for results.json and the report."""
    recording, replay = found.recording, job.replay
    return {
        "reports": reports,
        "configuration": configuration,
        "reports_read": found.reports,
        "refused": dict(sorted(found.refused.items())),
        "steps": len(recording.at_ms),
        "step_ms": found.step_ms,
        "first_ms": int(recording.at_ms[0]),
        "last_ms": int(recording.at_ms[-1]),
        "brokers": len(recording.brokers),
        "bundles": len(recording.bundles),
        "round_interval_ms": replay.round_interval_ms,
        "missed_steps": replay.missed_steps,
        "gap_ms": replay.gap_ms,
        "recording": job.digest,
    }


def _print_step(wanted_ms: int | None, step_ms: int) -> None:
    if wanted_ms is not None and wanted_ms < step_ms:
        text = f"--step-ms {wanted_ms}: panes of the tables are {step_ms} ms apart, and no step is shorter"
        typer.echo(f"ballast: {text}", err=True)


def _print_results(about: dict[str, Any], finished: Sequence[PointRun], kept: int, out: Path, named: Named) -> None:
    if about["refused"]:
        typer.echo(f"ballast: lines refused: {rules_text(about['refused'])}; see {out / QUARANTINE}", err=True)
    emit_scoreboard([run.point for run in finished], named.keys, named.words)
    points = count_text(len(finished), "point")
    typer.echo(f"{points} ({kept} kept from before), {about['steps']} steps: {out / RESULTS_CSV}")
    typer.echo(f"configuration: {about['configuration']}")


def _print_recommendation(found: Recommendation, out: Path) -> None:
    """Print what to do, the recommendation with its confidence, and the reasons, as in the report."""
    learned = ", ".join(f"{name} {value}" for name, value in found.settings.items() if name not in found.kept)
    kept = ", ".join(f"{name} {value}" for name, value in found.settings.items() if name in found.kept)
    unchanged = f"; as configured: {kept}" if kept else ""
    emit_text(found.verdict.text)
    if found.point is None:
        emit_text(f"recommended: nothing, {found.confidence}{unchanged}")
    else:
        emit_text(f"recommended strategy: {found.strategy}, {found.confidence}")
        emit_text(f"settings: {learned or 'none to change'}{unchanged}: {out / CONF}")
    for sentence in (*found.reasons, *found.advice):
        emit_text(f"- {sentence}")
    typer.echo(f"plots: {out / REPORT}")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), console=console, disable=not console.is_terminal,
    )  # fmt: skip
