"""How the tests run a notebook: as a script, from top to bottom, on the session of the tests."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.process.paths import ROOT

FOLDER = ROOT / "notebooks"
SHIM = "local_shim"


def run_notebook(notebook: Path, **parameters: object) -> dict[str, Any]:
    """What its variables are afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(notebook), *(f"{name}={value}" for name, value in parameters.items())])
        patch.setenv("MPLBACKEND", "Agg")
        patch.syspath_prepend(str(notebook.parent))
        patch.delitem(sys.modules, SHIM, raising=False)
        result = runpy.run_path(str(notebook))
        sys.modules.pop(SHIM, None)
    return result


def run_on_databricks(notebook: Path, spark: Any, values: dict[str, Any]) -> tuple[dict[str, Any], list[list[str]]]:
    """As there: its names are given, nothing is imported from beside it, widgets have these values.

    What its variables are afterwards, and the columns of every frame that it displayed.
    """
    shown: list[list[str]] = []

    class GivenWidgets:
        def text(self, name: str, default: str, label: str) -> None:
            assert name in values

        def get(self, name: str) -> str:
            return str(values[name])

    class Given:
        widgets = GivenWidgets()

    given = {"spark": spark, "dbutils": Given(), "display": lambda frame: shown.append(frame.columns)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "Agg")
        result = runpy.run_path(str(notebook), init_globals=given)
    assert SHIM not in sys.modules
    return result, shown


def rows(variables: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a data frame that the notebook made."""
    return [row.asDict() for row in variables[name].collect()]


def check_source_format(notebook: Path, more_cells_than: int) -> None:
    """Databricks' own: its first line, and cells that are either text or code."""
    text = notebook.read_text()
    assert text.splitlines()[0] == "# Databricks notebook source"
    cells = text.split("# COMMAND ----------")
    assert len(cells) > more_cells_than
    for cell in cells:
        kinds = {line.startswith("# MAGIC") for line in cell.splitlines()[1:] if line.strip()}
        assert len(kinds) == 1, cell[:80]
