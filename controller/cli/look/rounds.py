"""`ballast rounds`: one line per round, newest first."""

from __future__ import annotations

import typer

from controller.cli.options import AsJson, Conf, Limit, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import duration_text, emit_json, emit_table, emit_text, percent_text, time_text
from controller.operations.evidence_view import EvidenceView, no_rounds_text
from controller.operations.plans.plan_words import approval_text
from controller.operations.reading import Reader

app = new_app()


@app.command()
@report_errors
def rounds(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False, limit: Limit = 20
) -> None:
    """List the rounds in the journal, newest first."""
    reader = Reader(settings_of(conf, profile, sets))
    view = EvidenceView(reader)
    known = view.rounds()
    rows = view.with_plans(known[:limit])
    if as_json:
        emit_json(rows)
        return
    if not rows:
        emit_text(no_rounds_text(reader.outline().state))
        return
    waited = any(map(approval_text, rows))
    emit_table(
        [
            "at (UTC)",
            "round",
            "strategy",
            "rules >",
            "mode",
            "mean load >",
            "highest >",
            "moves >",
            "splits >",
            "skips >",
            "took >",
            *(["approval"] if waited else []),
        ],
        [
            (
                time_text(row["at_ms"]),
                row["round_id"],
                row["strategy"] + (" (challenger)" if row["challenger"] else ""),
                row["rules"],
                row["mode"],
                percent_text(row["mean_score"]),
                percent_text(row["max_score"]),
                row["moves"],
                row["splits"],
                row["skips"],
                duration_text(row["duration_ms"]),
                *([approval_text(row)] if waited else []),
            )
            for row in rows
        ],
    )
    if len(known) > limit:
        typer.echo(f"{len(known) - limit} more; --limit shows them")
