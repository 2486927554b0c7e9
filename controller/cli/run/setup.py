"""`ballast setup`: checks Java, and fills the cache of JARs that the job and a local Kafka need.

Afterwards everything works without a network. `make setup` does the same in a checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import new_app, report_errors
from controller.cli.show import emit_text
from controller.process.paths import ENV_HOME, JARS, ROOT, cache_of
from controller.process.setup import set_up

app = new_app()


@app.command()
@report_errors
def setup(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help=f"Root of the cache of JARs; by default ${ENV_HOME}.", show_default=False),
    ] = None,
) -> None:
    """Check Java; download and verify the JARs (200 MB, once)."""
    jars = JARS if folder is None else cache_of(folder.expanduser().resolve())
    emit_text(set_up(jars))
    if folder is not None and folder.expanduser().resolve() != ROOT:
        emit_text(f"set {ENV_HOME}={folder.expanduser().resolve()} wherever `ballast` runs, so that it finds them")
