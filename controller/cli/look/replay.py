"""`ballast replay`: decides stored rounds again and compares the plans.

A round decided by other rules of its strategy than those of this version is marked and is not a problem. Exit code 1
if a round results in another plan or cannot be read.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.options import PROBLEM, AsJson, Conf, Limit, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table, time_text
from controller.domain.errors import BallastError
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader
from controller.policy.replay import BROKEN, judge

app = new_app()
Round = Annotated[
    str | None, typer.Argument(metavar="ROUND", help="Id of a round; by default the newest rounds.", show_default=False)
]


@app.command()
@report_errors
def replay(
    name: Round = None, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    limit: Limit = 20,
) -> None:  # fmt: skip
    """Decide stored rounds again, newest first, including challengers, and compare the plans."""
    view = EvidenceView(Reader(settings_of(conf, profile, sets)))
    rounds = [row for row in view.rounds() if name in (None, row["round_id"])]
    if name is not None and not rounds:
        raise BallastError(f"no round is named {name}: `ballast rounds` lists those that are kept")
    rows = _replay_rounds(view, rounds if name else rounds[:limit])
    if as_json:
        emit_json(rows)
    else:
        emit_table(
            ["at (UTC)", "round", "strategy", "rules >", "replay"],
            [
                (
                    time_text(row["at_ms"]),
                    row["round_id"],
                    row["strategy"] + (" (challenger)" if row["challenger"] else ""),
                    row["rules"],
                    row["text"],
                )
                for row in rows
            ],
            empty="no round has run yet",
        )
    if any(row["verdict"] in BROKEN for row in rows):
        raise typer.Exit(PROBLEM)


def _replay_rounds(view: EvidenceView, rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each round: its own columns, `verdict` and `text`."""
    kept = ("round_id", "at_ms", "strategy", "challenger", "code_version", "plan_hash")
    inputs = view.inputs(row["attempt_id"] for row in rounds)
    rows = []
    for row in rounds:
        found = judge(inputs[row["attempt_id"]], row["plan_hash"])
        facts = {name: row[name] for name in kept}
        rows.append({**facts, "rules": found.rules, "verdict": found.verdict.value, "text": found.text})
    return rows
