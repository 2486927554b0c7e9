"""`ballast approve ROUND` and `ballast decline ROUND`: decide about a plan that waits (`rounds.approve_above`)."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, new_app, report_errors
from controller.cli.send_command import ANSWER_S, carry_out

app = new_app()
decline_app = new_app()


def _check_written(why: str) -> str:
    if not why.strip():
        raise typer.BadParameter("it is empty; the journal keeps the reason")
    return why


WrittenWhy = Annotated[str, typer.Option("--why", help="The reason, stored in the journal.", callback=_check_written)]
Round = Annotated[str, typer.Argument(metavar="ROUND", help="As `ballast status` names it.")]


@app.command()
@report_errors
def approve(
    round_id: Round, why: WrittenWhy, conf: Conf = None, profile: Profile = None, sets: Sets = None,
    as_json: AsJson = False, timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Have the waiting plan of this round carried out: each move whose bundle is still where the round saw it."""
    carry_out(conf, profile, sets, as_json, "approve", why, timeout, {"round": round_id})


@decline_app.command()
@report_errors
def decline(
    round_id: Round, why: WrittenWhy, conf: Conf = None, profile: Profile = None, sets: Sets = None,
    as_json: AsJson = False, timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Drop the waiting plan of this round; for a while no plan of its size is asked about."""
    carry_out(conf, profile, sets, as_json, "decline", why, timeout, {"round": round_id})
