"""`ballast doctor`: checks what a cluster stands on, and says what to do. Exit code 1 if a finding is severe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from controller.cli.options import PROBLEM, AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_text
from controller.domain.errors import without_login
from controller.operations.doctor.doctor import examine
from controller.operations.doctor.finding import Finding, Severity
from controller.process.clock import wall_ms

app = new_app()
Offline = Annotated[bool, typer.Option("--offline", help="Ask tables and disks only, not Kafka.")]


@app.command()
@report_errors
def doctor(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False, offline: Offline = False
) -> None:
    """Check tables, clocks, loads, rounds, versions, disk and Kafka: each finding with its remedy. Changes nothing."""
    settings = settings_of(conf, profile, sets)
    found = examine(settings, wall_ms, offline)
    counts = Counter(finding.severity for finding in found)
    if as_json:
        emit_json(
            {
                "cluster": settings.cluster.name,
                "tables": without_login(settings.tables.root),
                "counts": {severity.value: counts[severity] for severity in Severity},
                "findings": [finding.to_json() for finding in found],
            }
        )
    else:
        _print(found)
    if counts[Severity.SEVERE]:
        raise typer.Exit(PROBLEM)


def _print(found: Sequence[Finding]) -> None:
    """The findings, the worst first; what is in order takes one line each."""
    width = max(len(finding.check) for finding in found)
    for finding in found:
        emit_text(f"{finding.severity.value:7}  {finding.check:{width}}  {finding.text}")
        for what, text in (("do", finding.remedy), ("see", finding.page)):
            if text:
                emit_text(f"{'':7}  {'':{width}}  {what}: {text}")
    counts = Counter(finding.severity for finding in found)
    told = [f"{counts[severity]} {severity.value}" for severity in reversed(Severity) if counts[severity]]
    typer.echo(f"\n{', '.join(told)}")
