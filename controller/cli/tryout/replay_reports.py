"""`ballast replay-reports FILE`: shows what Ballast would have decided on a recording."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from controller.backtest.recording.input import rules_text
from controller.cli.decision_text import predicted_text
from controller.cli.evidence_text import kind_text, why_text
from controller.cli.options import interrupt_on_sigterm, new_app, report_error
from controller.cli.show import emit_table, time_text
from controller.domain.errors import BadRecord, BallastError
from controller.loads.recorded import Recorded
from controller.operations.text import count_text
from controller.process.paths import RUN, check_folder, make_folder
from controller.testbed.local_cluster import LocalCluster
from controller.testbed.replay import ReplayResult, read_recording, replay
from controller.testbed.replay_progress import ReplayProgress

app = new_app()


@app.command()
def replay_reports(
    file: Annotated[Path, typer.Argument(help="Recorded load reports of Pulsar brokers, JSON lines.", exists=True)],
    speed: Annotated[float, typer.Option(help="1: as recorded. The speed does not change decisions.", min=0.01)] = 50.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line per decision, the summary last.")
    ] = False,
    profile: Annotated[str, typer.Option(help="Configuration profile.")] = "recording",
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value of the profile: section.key=value.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep Kafka, tables and logs in this folder.")] = None,
) -> None:
    """Send recorded load reports through Kafka and the whole pipeline, in shadow mode and by record time."""
    if keep is not None:
        check_folder(keep, f"--keep {keep}")
    folder = keep or Path(tempfile.mkdtemp(prefix="replay-", dir=_run_folder()))
    try:
        result = _replay_file(file, folder, profile, sets or [], speed)
    except (BallastError, OSError) as error:
        raise report_error(error) from None
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    _print(result, as_json)


def _replay_file(file: Path, folder: Path, profile: str, sets: list[str], speed: float) -> ReplayResult:
    records = _read(file)
    with (
        interrupt_on_sigterm(),
        ReplayProgress() as progress,
        LocalCluster(folder, profile=profile, overrides=sets, replay=True, tell=progress.doing) as cluster,
    ):
        cluster.start_kafka_and_store()
        cluster.start_job()
        cluster.wait_for_job()
        return replay(cluster, records, speed, count=progress.count)


def _read(file: Path) -> list[Recorded]:
    """The reports of the file; one line says what was left out of it, however much that is."""
    refused: Counter[str] = Counter()
    first: list[str] = []

    def note(error: BadRecord) -> None:
        refused[error.rule_id] += 1
        if not first:
            first.append(error.text)

    records = read_recording(file, note)
    if refused:
        typer.echo(f"ballast: lines refused: {rules_text(refused)}; the first: {first[0]}", err=True)
    return records


def _run_folder() -> Path:
    make_folder(RUN)
    return RUN


def _print(result: ReplayResult, as_json: bool) -> None:
    if as_json:
        for row in result.decisions:
            typer.echo(json.dumps(row, sort_keys=True, default=str))
        typer.echo(json.dumps(result.summary()))
        return
    emit_table(
        ["at (UTC)", "kind", "bundle", "from", "to", "reason", "source >", "target >"],
        [
            (
                time_text(row["at_ms"]),
                kind_text(row),
                *(row[name] for name in ("bundle", "source", "target")),
                why_text(row),
                predicted_text(row, row["source"]),
                predicted_text(row, row["target"]),
            )
            for row in result.decisions
        ],
        "decisions (shadow: none was carried out), with the loads that were predicted of each",
        empty="no decision",
    )
    for phase, sources in result.sources_by_phase.items():
        typer.echo(f"{phase}: sources {', '.join(sources) or 'none'}")
    reports, rounds = count_text(result.reports, "report"), count_text(result.rounds, "round")
    typer.echo(f"{reports}, {result.quarantined} quarantined, {rounds}")
