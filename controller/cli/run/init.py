"""`ballast init DIR`: a folder to run Ballast from, with a configuration, Spark settings and systemd units.

Every file is a copy of a shipped one, with this installation's paths filled in; recipes for containers, Kubernetes and
Databricks, alert rules and dashboards are copied as they are. Nothing is overwritten.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import new_app, report_errors
from controller.cli.show import emit_text
from controller.config.load import load_settings
from controller.domain.errors import ConfigError
from controller.operations.text import count_text
from controller.process.paths import CONF, ROOT, SHIPPED, make_folder

CONFIGURATION, SPARK_SETTINGS, UNITS = "ballast.yaml", "spark.conf", "systemd"
USERS = "sysusers/ballast.conf"  # for systemd-sysusers: the user that the units name
RECIPES, BUNDLE = "deploy", "deploy/databricks"
OBSERVABILITY = "observability"
# What people read the tables with: folder of the shipped, and its files.
STUDY = (("notebooks", "*.py"), ("docs", "sql*.md"), ("docs/sql", "*.sql"), ("docs/sql/views", "*.sql"))
RUNNER = "run_local.py"  # runs notebooks where there is no Databricks
PROFILE_LINE = "#profile: local"
SPARK_OF_PROFILE = {"cluster": "cluster.conf"}  # every other profile is for one machine

app = new_app()


@app.command()
@report_errors
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to; made if it does not exist.")],
    profile: Annotated[str, typer.Option("--profile", help="Profile that the configuration names.")] = "local",
) -> None:
    """Write a commented configuration, Spark settings, units, notebooks, queries, recipes and alerts into a folder."""
    load_settings(None, profile, env={})  # refuses a profile that does not exist
    folder = folder.expanduser().resolve()
    files = dict(starter_files(folder, profile))
    present = [name for name in files if (folder / name).exists()]
    if present:
        raise ConfigError(f"{folder / present[0]} exists already: name another folder, or move it away")
    make_folder(folder)
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    conf, users = (shlex.quote(str(folder / name)) for name in (CONFIGURATION, USERS))
    emit_text(f"{folder}: {count_text(len(files), 'file')}, profile {profile}")
    # not wrapped: a path with spaces would be torn
    typer.echo(f"next: edit {conf}, then `ballast config check --conf {conf}`")
    typer.echo(f"for the units: `systemd-sysusers {users}`, then let ballast read {folder} and write below {ROOT}")


def starter_files(folder: Path, profile: str) -> Iterator[tuple[str, str]]:
    """Name within the folder, and contents, of every file."""
    yield CONFIGURATION, _with_profile((CONF / "ballast.yaml").read_text(encoding="utf-8"), profile)
    yield SPARK_SETTINGS, (CONF / "spark" / SPARK_OF_PROFILE.get(profile, "local.conf")).read_text(encoding="utf-8")
    paths = {"@BALLAST@": _program(), "@FOLDER@": _escaped(folder), "@HOME@": _escaped(ROOT)}
    for unit in sorted((CONF / "systemd").iterdir()):
        text = unit.read_text(encoding="utf-8")
        for name, value in paths.items():
            text = text.replace(name, value)
        yield f"{UNITS}/{unit.name}", text
    yield USERS, (CONF / USERS).read_text(encoding="utf-8")
    for place, pattern in STUDY:
        for file in sorted((SHIPPED / place).glob(pattern)):
            yield f"{place}/{file.name}", file.read_text(encoding="utf-8")
    yield from _recipes()


def _recipes() -> Iterator[tuple[str, str]]:
    """The files of `conf/deploy` and `conf/observability`. A bundle contains its notebooks, so they are beside it once
    more."""
    for file in (file for folder in (RECIPES, OBSERVABILITY) for file in sorted((CONF / folder).rglob("*"))):
        if file.is_file():
            yield file.relative_to(CONF).as_posix(), file.read_text(encoding="utf-8")
    for notebook in sorted((SHIPPED / "notebooks").glob("*.py")):
        if notebook.name != RUNNER:
            yield f"{BUNDLE}/notebooks/{notebook.name}", notebook.read_text(encoding="utf-8")


def _with_profile(text: str, profile: str) -> str:
    if PROFILE_LINE not in text:
        raise ConfigError(f"{CONF / 'ballast.yaml'} has no line {PROFILE_LINE!r}: it is not the shipped one")
    return text.replace(PROFILE_LINE, f"profile: {profile}")


def _program() -> str:
    """This command, as a service manager can start it: the installed script beside the interpreter."""
    script = Path(sys.executable).with_name("ballast")
    return f'"{_escaped(script)}"' if script.exists() else f'"{_escaped(sys.executable)}" -m controller.cli.main'


def _escaped(path: Path | str) -> str:
    """For a quoted word of a unit file, where a percent sign begins a specifier."""
    return str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
