"""`ballast bundles`: bundles and their owners, busiest first."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.choices import bundle_states
from controller.cli.options import AsJson, Conf, Limit, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_json, emit_table, emit_text, rate_text
from controller.domain.errors import BadRecord
from controller.operations.bundles import check_names, unassigned_text
from controller.operations.overview import bundle_rows
from controller.operations.reading import Reader
from controller.operations.text import minute_text

app = new_app()
Namespace = Annotated[str | None, typer.Option("--namespace", help="Only bundles of this tenant/namespace.")]
Broker = Annotated[str | None, typer.Option("--broker", help="Only bundles that this broker owns or will get.")]
OfState = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="Only bundles in this state. Retired bundles are not shown otherwise.",
        autocompletion=bundle_states,
    ),
]


@app.command()
@report_errors
def bundles(
    conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    namespace: Namespace = None, broker: Broker = None, state: OfState = None, limit: Limit = 50,
) -> None:  # fmt: skip
    """List bundles with owner, state and load, busiest first."""
    known = bundle_states()
    if state is not None and state not in known:
        raise BadRecord("state", f"--state {state} is none of {', '.join(known)}")
    reader = Reader(settings_of(conf, profile, sets))
    rows, _ = bundle_rows(reader, namespace, broker, state)
    if not rows and (namespace, broker) != (None, None):
        check_names(reader.outline(), namespace, broker)
    if as_json:
        emit_json(rows[:limit])
        return
    emit_table(
        ["bundle", "state", "epoch >", "owner", "to", "messages >", "bytes >", "topics >", "moved (UTC)"],
        [
            (
                row["bundle"],
                row["state"],
                row["epoch"],
                row["owner"],
                row["to"],
                rate_text(row["msg_rate"], "/s"),
                rate_text(row["throughput"], "B/s"),
                None if row["topics"] is None else round(row["topics"]),
                minute_text(row["moved_at_ms"]),  # the time of a round, not of the move: seconds would look exact
            )
            for row in rows[:limit]
        ],
        empty="no bundle matches",
    )
    if len(rows) > limit:
        typer.echo(f"{len(rows) - limit} more; --limit shows them")
    left = unassigned_text(reader.state(), namespace) if broker is None and state is None else ""
    if left:
        emit_text(left)
