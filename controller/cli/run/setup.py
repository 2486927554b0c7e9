"""`ballast setup`: checks Java, and fills the cache of JARs that the job and a local Kafka need.

Afterwards everything works without a network. `make setup` does the same in a checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import new_app, report_errors
from controller.cli.show import emit_text
from controller.process.paths import ENV_HOME, EXTRA_JARS, JARS, ROOT, cache_of
from controller.process.setup import set_up, set_up_extra
from controller.process.spark_submit import S3A

app = new_app()


@app.command()
@report_errors
def setup(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help=f"Root of the cache of JARs; by default ${ENV_HOME}.", show_default=False),
    ] = None,
    s3a: Annotated[
        bool, typer.Option("--s3a", help="Also the JARs for checkpoints at s3a:// addresses (560 MB).")
    ] = False,
) -> None:
    """Check Java; download and verify the JARs (65 MB, once)."""
    jars = JARS if folder is None else cache_of(folder.expanduser().resolve())
    emit_text(set_up(jars))
    if s3a:
        emit_text(set_up_extra(S3A, EXTRA_JARS if folder is None else jars))
    if folder is not None and folder.expanduser().resolve() != ROOT:
        emit_text(f"set {ENV_HOME}={folder.expanduser().resolve()} wherever `ballast` runs, so that it finds them")
