"""`ballast capture --since TIME DIR`: an incident's slice of the tables, to take away and look at later."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.show import emit_facts, emit_json, emit_text, time_text
from controller.cli.times import MOMENT, moment_ms
from controller.domain.errors import ConfigError
from controller.operations.capture.capture import CONFIG
from controller.operations.capture.capture import capture as write_slice
from controller.operations.text import count_text
from controller.process.clock import wall_ms

app = new_app()
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the slice.", show_default=False)]
From = Annotated[
    str, typer.Option("--since", metavar=MOMENT, help="From: 90m, 2h or 3d ago, or 2026-11-21T04:50 in UTC.",
                      show_default=False)
]  # fmt: skip
Until = Annotated[
    str | None, typer.Option("--until", metavar=MOMENT, help="To; by default now.", show_default=False)
]  # fmt: skip
HashNames = Annotated[
    bool,
    typer.Option("--hash-names", help="Numbers in place of the names of brokers, tenants, namespaces and topics."),
]


@app.command()
@report_errors
def capture(
    folder: Folder, since: From, conf: Conf = None, profile: Profile = None, sets: Sets = None,
    as_json: AsJson = False, until: Until = None, hash_names: HashNames = False,
) -> None:  # fmt: skip
    """Write the tables' slice since a time into a folder, which `--conf DIR/ballast.yaml` reads like a cluster."""
    settings = settings_of(conf, profile, sets)
    now_ms = wall_ms()
    since_ms = moment_ms(since, now_ms, "--since")
    until_ms = moment_ms(until, now_ms, "--until") if until else now_ms
    if since_ms >= until_ms:
        raise ConfigError(f"--since {since} is not before {f'--until {until}' if until else 'now'}")
    about = write_slice(settings, folder, since_ms, until_ms, hash_names)
    if as_json:
        emit_json({"folder": str(folder.absolute()), **about})
        return
    emit_facts(
        [
            ("from (UTC)", time_text(since_ms)),
            ("to (UTC)", time_text(until_ms)),
            ("journal", f"entries {about['first_seq']} to {about['last_seq']}"),
            ("rounds", about["rounds"]),
            *((f"table {name}", count_text(rows, "row")) for name, rows in about["rows"].items() if rows),
        ]
    )
    if about["rounds_unlike"]:
        emit_text(f"\nwith hashed names these rounds come to another plan: {', '.join(about['rounds_unlike'])}")
    typer.echo(f"\nballast replay --all --conf {shlex.quote(str(folder / CONFIG))}")
