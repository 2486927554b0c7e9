"""`ballast mode`: print or set whether rounds act (live) or only decide (shadow; paused, when somebody stops them)."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.choices import mode_names
from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_app, report_errors, settings_of
from controller.cli.send_command import ANSWER_S, carry_out
from controller.cli.show import emit_json
from controller.domain.errors import BadRecord
from controller.domain.state import MODES
from controller.operations.reading import Reader

app = new_app()
To = Annotated[str | None, typer.Argument(metavar="shadow|live|paused", show_default=False, autocompletion=mode_names)]


@app.command()
@report_errors
def mode(
    to: To = None,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Print the mode, or set it. Failover and operators' commands work in every mode."""
    if to is not None:
        if to not in MODES:
            raise BadRecord("mode", f"{to!r} is none of {', '.join(MODES)}")
        carry_out(conf, profile, sets, as_json, "mode", why, timeout, {"mode": to})
        return
    state = Reader(settings_of(conf, profile, sets)).outline().state
    if as_json:
        emit_json({"mode": state.mode, "seq": state.seq})
    else:
        typer.echo(state.mode)
