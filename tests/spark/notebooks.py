"""How the tests run a notebook: as a script, from top to bottom, on the session of the tests."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.ops.paths import ROOT

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
