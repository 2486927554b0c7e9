"""How the tests run a notebook: cell by cell, text, SQL and Python, on the session of the tests.

Each cell finds what Databricks gives it. What it displays and draws is kept, by its cell's title or the frame's name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from controller.process.paths import ROOT

FOLDER = ROOT / "notebooks"
BESIDE = ("plots", "views")  # modules that notebooks share
Rows = list[dict[str, Any]]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"notebooks_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run_local = _load("run_local")


@dataclass
class Ran:
    """`names`: its variables afterwards. `shown`: title -> rows. `figures`: (title, inches, lines) of each plot."""

    names: dict[str, Any] = field(default_factory=dict)
    headings: list[str] = field(default_factory=list)
    shown: dict[str, Rows] = field(default_factory=dict)
    figures: list[tuple[str, tuple[float, float], int]] = field(default_factory=list)
    printed: str = ""

    def rows(self, name: str) -> Rows:
        """The rows of a frame that the notebook made."""
        return [row.asDict() for row in self.names[name].collect()]


class Given:
    """`dbutils` of Databricks: a widget needs its name, default and label, and gives text."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values, self._declared = values, dict[str, str]()
        self.widgets = self

    def text(self, name: str, default: str, label: str) -> None:
        assert label
        self._declared[name] = default

    def get(self, name: str) -> str:
        return str(self._values.get(name, self._declared[name]))

    def check_all_taken(self) -> None:
        """No test gives a value that no widget has."""
        assert self._values.keys() <= self._declared.keys()


def run_notebook(notebook: Path, spark: Any, **values: object) -> Ran:
    """Run it with these values of its widgets."""
    ran, given = Ran(), Given(values)

    def show(frame: Any, title: str) -> None:
        assert title not in ran.shown, f"two results are called {title!r}"
        ran.shown[title] = [row.asDict() for row in frame.collect()]

    printed = io.StringIO()
    with _beside(notebook), contextlib.redirect_stdout(printed):
        ran.names = run_local.run_cells(notebook, spark, given, show, ran.headings.append)
        ran.figures = list(_figures())
    given.check_all_taken()
    ran.printed = printed.getvalue()
    return ran


def print_notebook(name: str, **values: object) -> list[str]:
    """The lines that it prints as a script, on the session of the tests."""
    printed = io.StringIO()
    with _beside(FOLDER / name), contextlib.redirect_stdout(printed):
        run_local.main([name, *(f"{key}={value}" for key, value in values.items())])
        list(_figures())
    return printed.getvalue().splitlines()


@contextlib.contextmanager
def _beside(notebook: Path) -> Iterator[None]:
    """The notebook's folder is on the path, as there; its modules are forgotten afterwards."""
    import matplotlib

    matplotlib.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(notebook.parent))
        yield
    for name in BESIDE:
        sys.modules.pop(name, None)


def _figures() -> Iterator[tuple[str, tuple[float, float], int]]:
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        axes = figure.axes[0]
        width, height = figure.get_size_inches()
        yield axes.get_title(loc="left"), (float(width), float(height)), len(axes.get_legend_handles_labels()[0])
    pyplot.close("all")


def check_source_format(notebook: Path, more_cells_than: int) -> None:
    """Databricks' own: its first line, and cells that are text, SQL or code; SQL cells have titles of their own."""
    text = notebook.read_text()
    assert text.splitlines()[0] == "# Databricks notebook source"
    for part in text.split("# COMMAND ----------"):
        lines = [line for line in part.splitlines()[1:] if line.strip() and not line.startswith("# DBTITLE 1,")]
        assert len({line.startswith("# MAGIC") for line in lines}) == 1, part[:80]
    cells = run_local.read_cells(notebook)
    assert len(cells) > more_cells_than
    titles = [cell.title for cell in cells if cell.kind == run_local.SQL]
    assert titles
    assert all(titles)
    assert len(set(titles)) == len(titles)
    assert cells[0].kind == run_local.TEXT


def check_plots(ran: Ran, count: int) -> None:
    """As many plots as that, each seen without scrolling, with a legend that can be read."""
    assert len(ran.figures) == count
    for title, (width, height), labels in ran.figures:
        assert title
        assert width <= 10, title
        assert height <= 6.5, title
        assert labels <= 8, title
