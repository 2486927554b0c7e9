"""`ballast diff ROUND --strategy X`: what another strategy would have done in a stored round, as a difference.

As `kubectl diff` shows them: `-` only the strategy in charge did, `+` only the other one would do, `~` both, but not
alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from controller.cli.choices import strategy_names
from controller.cli.options import PROBLEM, AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table, emit_text, percent_text, time_text
from controller.operations.evidence_view import EvidenceView
from controller.operations.evidence_words import reason_text
from controller.operations.reading import Reader
from controller.operations.rounds.differences import ONLY_FIRST, ONLY_SECOND, OTHERWISE, SAME, compare
from controller.operations.rounds.what_if import plan_by, plan_in_charge
from controller.operations.text import count_text

app = new_app()
Round = Annotated[str, typer.Argument(metavar="ROUND", help="Id of a stored round, as `ballast rounds` prints it.")]
Strategy = Annotated[
    str,
    typer.Option("--strategy", help="The strategy to compare with.", show_default=False, autocompletion=strategy_names),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if the plans differ.")]
Row = Mapping[str, Any]


@app.command()
@report_errors
def diff(
    name: Round, strategy: Strategy, conf: Conf = None, profile: Profile = None, sets: Sets = None,
    as_json: AsJson = False, exit_code: ExitCode = False,
) -> None:  # fmt: skip
    """Show what another strategy would have done in a stored round. Executes nothing."""
    settings = settings_of(conf, profile, sets)
    view = EvidenceView(Reader(settings))
    document = compare(plan_in_charge(view, name), plan_by(view, name, strategy))
    if as_json:
        emit_json(document)
    else:
        _print(document)
    if exit_code and not document["same"]:
        raise typer.Exit(PROBLEM)


def _print(document: Row) -> None:
    first, second = document["first"], document["second"]
    typer.echo(
        f"round {document['round_id']} at {time_text(document['at_ms'])} UTC, mode {document['mode']}\n"
        f"--- {_head_text(first)}\n+++ {_head_text(second)}\n"
    )
    changed = [row for row in document["changes"] if row["change"] != SAME]
    for row in changed:
        _print_change(row)
    alike = len(document["changes"]) - len(changed)
    if document["same"]:
        typer.echo(f"the same plan: {count_text(alike, 'action')}")
    elif alike:
        typer.echo(f"= {alike} alike")
    typer.echo("")
    emit_table(
        ["broker", "score >", f"after {first['strategy']} >", f"after {second['strategy']} >",
         f"{first['strategy']} says …", f"{second['strategy']} says …"],
        [
            (
                row["broker"], percent_text(row["score"]), percent_text(row["first_after"]),
                percent_text(row["second_after"]), reason_text(row["first_reason"]), reason_text(row["second_reason"]),
            )
            for row in document["brokers"]
        ],
    )  # fmt: skip
    typer.echo("")
    emit_text(document["note"])


def _head_text(plan: Row) -> str:
    """A plan in one line: `steady by rules 6: 2 moves, 0 splits; highest score 91.0 % → 80.2 %, balance 88`."""
    does = ", ".join(count_text(plan[f"{what}s"], what) for what in ("move", "split"))
    text = f"{plan['strategy']} by rules {plan['rules']}: {does}"
    if plan["highest_before"] is not None:
        text += f"; highest score {percent_text(plan['highest_before'])} → {percent_text(plan['highest_after'])}"
    return text if plan["balance_after"] is None else f"{text}, balance {plan['balance_after']:.0f}"


def _print_change(row: Row) -> None:
    first, second = row["first"], row["second"]
    if row["change"] in (ONLY_FIRST, OTHERWISE):
        emit_text(f"{'~' if second else '-'} {row['bundle']}  {_action_text(first)}")
    if row["change"] in (ONLY_SECOND, OTHERWISE):
        emit_text(f"{'~' if first else '+'} {row['bundle']}  {_action_text(second)}")


def _action_text(row: Row) -> str:
    boundary = "" if row["boundary"] is None else f" at 0x{row['boundary']:08x}"
    to = f" → {row['target']}" if row["target"] else ""
    return f"{row['kind']}{boundary}: {row['source']}{to}  ({row['reason']}: {row['reason_words']})"
