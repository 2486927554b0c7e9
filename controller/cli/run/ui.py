"""`ballast ui`: serves the operators' page, until Ctrl-C or SIGTERM."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from controller.cli.options import Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.config.settings import Settings
from controller.domain.errors import BallastError, without_login
from controller.process.access.named_tokens import new_token
from controller.process.logs import configure_logs

app = new_app()


@app.command()
@report_errors
def ui(
    host: Annotated[str | None, typer.Option("--host", help="Instead of ui.bind_host.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Instead of ui.port; 0 takes a free one.", min=0, max=65_535)
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="Instead of ui.token_file: who may act.", show_default=False)
    ] = None,
    new: Annotated[
        str | None,
        typer.Option("--new-token", metavar="NAME", help="Print a token and its line for the file, then end."),
    ] = None,
    conf: Conf = None, profile: Profile = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Serve the operators' page, and print its address. It reads the tables; it needs no controller and no JVM."""
    if new is not None:
        token, line = new_token(new)
        typer.echo(f"for {new} alone; it is stored nowhere:  {token}")
        typer.echo(f"for the token file:  {line}")
        return
    settings = settings_of(conf, profile, sets)
    configure_logs(settings.logging.level, settings.logging.json_lines, process="ui")
    from controller.ui.server import serve

    def tell(address: str) -> None:
        typer.echo(address)
        Thread(target=_tell_of_no_tables, args=(settings,), daemon=True).start()  # a store may take its time

    given = settings.ui.token_file
    file = token_file or (Path(given) if given else None)
    serve(settings, host or settings.ui.bind_host, settings.ui.port if port is None else port, file, tell)


def _tell_of_no_tables(settings: Settings) -> None:
    """Print that there are no tables yet. The page itself reports a store that cannot be read."""
    from deltalake.exceptions import DeltaError

    from controller.config.table_root import table_root

    root = table_root(settings)
    with suppress(BallastError, DeltaError, OSError):
        if not root.exists("journal"):
            place = without_login(root.root)
            typer.echo(f"there are no tables at {place} yet; the page shows them as soon as there are")
