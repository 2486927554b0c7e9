"""`ballast store`: runs the segment store of the reference brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.brokers.reference.store.server import main as serve
from controller.cli.options import Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.process.logs import configure_logs
from controller.service.start_checks import check_folder, check_listening

app = new_app()


@app.command()
@report_errors
def store(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Folder of the segments; created if missing.")],
    host: Annotated[str | None, typer.Option("--host", help="Instead of store.address.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Instead of store.address; 0 chooses a free one.", min=0, max=65_535)
    ] = None,
    fsync: Annotated[
        bool | None, typer.Option("--fsync/--no-fsync", help="Instead of store.fsync.", show_default=False)
    ] = None,
    conf: Conf = None, profile: Profile = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Run the shared durable store of the reference brokers until SIGTERM; print its address."""
    settings = settings_of(conf, profile, sets)
    configure_logs(settings.logging.level, settings.logging.json_lines, process="store")
    given_host, _, given_port = settings.store.address.rpartition(":")
    origin = f" (store.address, {settings.origin('store.address')})"
    check_folder(str(data_dir), "--data-dir", "")
    check_listening(
        ("--host", host, "") if host else ("host", given_host, origin),
        ("--port", port, "") if port is not None else ("port", int(given_port), origin),
    )
    argv = ["--data-dir", str(data_dir), "--host", host or given_host]
    argv += ["--port", str(port if port is not None else given_port)]
    if settings.store.fsync if fsync is None else fsync:
        argv.append("--fsync")
    serve(argv)
