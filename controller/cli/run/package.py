"""`ballast package FILE`: this version's code as one zip, for executors that do not have it installed.

Give it to the job with `spark.submit.pyFiles` in the Spark properties file, or `--py-files`. The zip holds what a task
imports; the libraries that it needs must be in the executors' Python environment.
"""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import Annotated

import typer

from controller import __version__
from controller.cli.options import new_app, report_errors
from controller.cli.show import emit_text
from controller.domain.errors import BallastError, ConfigError
from controller.process.paths import CODE, PACKAGED

PACKAGES = ("controller", "jobs", "schemas")
MOMENT = (1980, 1, 1, 0, 0, 0)  # of every file, so that the same code gives the same bytes

app = new_app()


@app.command()
@report_errors
def package(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Zip to write; a folder gets ballast-VERSION.zip.")
    ] = Path(),
) -> None:
    """Write the code as one zip for `spark.submit.pyFiles`."""
    place = file / f"ballast-{__version__}.zip" if file.is_dir() else file
    if place.suffix != ".zip":
        raise ConfigError(f"{place} does not end in .zip, and Spark takes no other archive of Python code")
    if not place.absolute().parent.is_dir():
        raise ConfigError(f"{place}: there is no folder {place.absolute().parent}; create it, or give another one")
    emit_text(f"{place}: {write_zip(place)} modules")


def write_zip(place: Path, code: Path = CODE) -> int:
    """Write the packages below `code`; returns the number of modules. The same code gives the same bytes."""
    shipped = code / PACKAGED.relative_to(CODE)  # in a wheel, with notebooks, which no task imports
    found = (file for name in PACKAGES for file in (code / name).rglob("*.py"))
    modules = sorted(file for file in found if shipped not in file.parents)
    part = place.with_name(f"{place.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for module in modules:
                entry = zipfile.ZipInfo(module.relative_to(code).as_posix(), MOMENT)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, module.read_bytes())
        part.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise BallastError(
            f"cannot write {place}: {error.strerror or error}; make room there, or give another file"
        ) from None
    return len(modules)
