"""`ballast drain` and `ballast undrain`: empty a broker and keep it empty, or let it take bundles again."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.ops.cli_options import AsJson, Conf, Profile, Sets, Timeout, Why, new_app, told
from controller.ops.commanding import ANSWER_S, carry_out

app = new_app()
undrain_app = new_app()
Broker = Annotated[str, typer.Argument(metavar="BROKER")]


@app.command()
@told
def drain(
    broker: Broker,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Hand everything the broker owns to others; it gets nothing until undrained, also after a restart."""
    carry_out(conf, profile, sets, as_json, "drain", why, timeout, {"broker": broker})


@undrain_app.command()
@told
def undrain(
    broker: Broker,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Let a drained broker take bundles again."""
    carry_out(conf, profile, sets, as_json, "undrain", why, timeout, {"broker": broker})
