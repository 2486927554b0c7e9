"""`ballast namespace create|list`."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, Timeout, Why, new_group, report_errors, settings_of
from controller.cli.send_command import ANSWER_S, carry_out
from controller.cli.show import emit_json, emit_table
from controller.operations.bundles import namespace_rows
from controller.operations.reading import Reader

app = new_group("Namespaces: create one, list them.")


@app.command()
@report_errors
def create(
    namespace: Annotated[str, typer.Argument(help="tenant/namespace")],
    bundles: Annotated[
        int | None, typer.Option("--bundles", help="Initial bundles; by default the configured number.", min=1)
    ] = None,
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    why: Why = "", timeout: Timeout = ANSWER_S,
) -> None:  # fmt: skip
    """Create a namespace; its bundles are assigned when their topics are first looked up."""
    args = {"namespace": namespace, "bundles": bundles}
    carry_out(conf, profile, sets, as_json, "create_namespace", why, timeout, args)


@app.command("list")
@report_errors
def list_(conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False) -> None:
    """List namespaces with their bundles and owners."""
    rows = namespace_rows(Reader(settings_of(conf, profile, sets)).state())
    if as_json:
        emit_json(rows)
        return
    emit_table(
        ["namespace", "bundles >", "owned >", "topics created >", "brokers …"],
        [
            (
                row["namespace"],
                row["bundles"],
                row["owned"],
                row["topics_created"],
                ", ".join(f"{broker}: {count}" for broker, count in row["brokers"].items()),
            )
            for row in rows
        ],
        empty="no namespace yet: `ballast namespace create TENANT/NAMESPACE`",
    )
