"""`ballast unload`: move a bundle, or all bundles of a namespace, off their owners."""

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
def unload(
    what: Annotated[str, typer.Argument(metavar="BUNDLE|NAMESPACE")],
    to: Annotated[str | None, typer.Option("--to", help="The target broker; by default placement chooses.")] = None,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Move a bundle, or every owned bundle of a namespace, to another broker."""
    kind, name = command_for(what)
    args = {name: what, "to": to}
    carry_out(conf, profile, sets, as_json, kind, why, timeout, args)


def command_for(what: str) -> tuple[str, str]:
    """The kind of the command and the name of its argument. Raises BadRecord if `what` is neither of the two."""
    if what.count("/") == 1 and all(what.split("/")):
        return "unload_namespace", "namespace"
    try:
        Bundle.parse(what)
    except BadRecord:
        raise BadRecord(
            "unload", f"{what!r} is neither tenant/namespace nor tenant/namespace/0xLLLLLLLL_0xUUUUUUUU"
        ) from None
    return "unload_bundle", "bundle"
