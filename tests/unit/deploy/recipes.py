"""What the tests of the recipes share: reading them, and asking whether a command line would be accepted."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
import yaml
from jsonschema import Draft202012Validator

import controller
from controller.cli.main import COMMANDS
from controller.process.paths import CONF, ROOT
from controller.service.arguments import parse_arguments

DEPLOY = CONF / "deploy"
SCHEMAS = ROOT / "tests" / "data" / "deploy"
WHEEL = f"dist/ballast-{controller.__version__}-py3-none-any.whl"  # beside a recipe that takes one

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
SPARK_VERSION = re.findall(r'"pyspark==([\d.]+)"', PYPROJECT)[0]


def objects(name: str) -> list[dict[str, Any]]:
    """The documents of a manifest."""
    return [found for found in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()) if found]


def faults(document: object, schema: str) -> list[str]:
    """What a schema of tests/data/deploy has to say against it, each with its place."""
    validator = Draft202012Validator(yaml.safe_load((SCHEMAS / schema).read_text()))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(document)]


def parts(tree: object) -> Iterator[dict[str, Any]]:
    """Every mapping within a document, the document first."""
    if isinstance(tree, dict):
        yield tree
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for part in inner:
        yield from parts(part)


def check_command(words: Sequence[str]) -> None:
    """Fail unless `ballast` accepts these words, the command first: its name, options and arguments. Nothing is run."""
    command, *arguments = words
    app = getattr(importlib.import_module(COMMANDS[command].module), COMMANDS[command].app)
    context = typer.main.get_command(app).make_context(command, arguments)
    if command == "run":
        parse_arguments(context.args)  # all but its own option are the job's


def spark_settings(text: str) -> dict[str, str]:
    """Keys and values of a Spark properties file."""
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {key: value.strip() for key, value in lines}


def cluster_settings() -> dict[str, str]:
    """The shipped ones for a cluster."""
    return spark_settings((CONF / "spark" / "cluster.conf").read_text())


def configuration_file(text: str, folder: Path) -> Path:
    """A configuration of a recipe as a file, with a token where it names one: what the file of a Secret would be."""
    token = folder / "token"
    token.write_text("t0ken\n")
    file = folder / "ballast.yaml"
    file.write_text(text.replace("/etc/ballast-http/token", str(token)))
    return file
