"""`ballast split`: split a bundle in two."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_app, report_errors
from controller.cli.send_command import ANSWER_S, carry_out
from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle

app = new_app()


@app.command()
@report_errors
def split(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE")],
    boundary: Annotated[str | None, typer.Option("--boundary", help="Hash, 0x…; by default the middle.")] = None,
    unload: Annotated[bool, typer.Option("--unload", help="Move the quieter half to another broker at once.")] = False,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Split a bundle; both halves stay with its owner unless --unload is given."""
    Bundle.parse(bundle)
    args = {"bundle": bundle, "boundary": hash_of(boundary), "unload": unload}
    carry_out(conf, profile, sets, as_json, "split_bundle", why, timeout, args)


def hash_of(text: str | None) -> int | None:
    """Parse a hash, 0x… or decimal. Raises BadRecord."""
    if text is None:
        return None
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value <= 0xFFFFFFFF:
        raise BadRecord("boundary", f"--boundary {text!r} is no hash between 0x00000000 and 0xffffffff")
    return value
