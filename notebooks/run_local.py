"""Runs a notebook outside Databricks, cell by cell: `python notebooks/run_local.py 02_why tables=run/tables`.

A cell finds what Databricks gives it: `spark`, `display`, `dbutils.widgets`, whose values are the arguments
`name=value`, widgets as `:name` in SQL, and in `_sqldf` the result of the last SQL cell. What is displayed is printed:
the headings, the name, and the first rows, of history the newest.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, TimestampType

from controller.cli.show import emit_table
from jobs.session import build_session

FOLDER = Path(__file__).resolve().parent
FIRST_LINE, BETWEEN = "# Databricks notebook source", "# COMMAND ----------"
MAGIC, TITLE = "# MAGIC", "# DBTITLE 1,"
TEXT, SQL, PYTHON = "md", "sql", "python"
ROWS_SHOWN = 30
Show = Callable[[DataFrame, str], None]


@dataclass(frozen=True)
class Cell:
    """`kind`: md, sql or python. `text` without the marks of its kind. `line`: where it begins in the file, from 1."""

    kind: str
    title: str
    text: str
    line: int


def read_cells(notebook: Path) -> list[Cell]:
    """The cells of a notebook in Databricks' source format. Raises ValueError for another file, or another magic."""
    lines = notebook.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != FIRST_LINE:
        raise ValueError(f"{notebook} is no notebook: its first line is not {FIRST_LINE!r}")
    ends = [at for at, line in enumerate(lines) if line == BETWEEN]
    bounds = zip([0, *ends], [*ends, len(lines)], strict=True)
    return [_cell(notebook, lines, begin + 1, end) for begin, end in bounds]


def _cell(notebook: Path, lines: list[str], begin: int, end: int) -> Cell:
    while begin < end and not lines[begin].strip():
        begin += 1
    title = ""
    if begin < end and lines[begin].startswith(TITLE):
        title = lines[begin].removeprefix(TITLE)
        begin += 1
    body = lines[begin:end]
    if not body or not body[0].startswith(MAGIC):
        return Cell(PYTHON, title, "\n".join(body), begin + 1)
    inside = [line.removeprefix(MAGIC).removeprefix(" ") for line in body if line.startswith(MAGIC)]
    kind = inside[0].strip().removeprefix("%")
    if kind not in (TEXT, SQL):
        raise ValueError(f"{notebook}:{begin + 1}: magic %{kind} is neither %md nor %sql")
    return Cell(kind, title, "\n".join(inside[1:]), begin + 1)


def run_cells(notebook: Path, spark: Any, dbutils: Any, show: Show, say: Callable[[str], None]) -> dict[str, Any]:
    """Run a notebook; returns its names afterwards.

    `show` is called with every frame that it displays, and the cell's title or the frame's name; `say` with headings.
    """
    lines = notebook.read_text(encoding="utf-8").splitlines()

    def display(frame: DataFrame) -> None:
        show(frame, _name_of(lines[sys._getframe(1).f_lineno - 1]))

    names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "dbutils": dbutils, "display": display}
    for cell in read_cells(notebook):
        if cell.kind == TEXT:
            for heading in re.findall(r"(?m)^#+ (.*)$", cell.text):
                say(heading)
        elif cell.kind == SQL:
            frame = spark.sql(cell.text, args=dict(_parameters(cell.text, dbutils.widgets)))
            names["_sqldf"] = frame
            if frame.columns:
                show(frame, cell.title or "rows")
        else:
            exec(compile("\n" * (cell.line - 1) + cell.text, str(notebook), "exec", dont_inherit=True), names)
    return names


def _parameters(text: str, widgets: Any) -> Iterator[tuple[str, str]]:
    for name in sorted(set(re.findall(r"(?<![:\w]):([A-Za-z_]\w*)", text))):
        yield name, widgets.get(name)


def _name_of(line: str) -> str:
    called = re.search(r"display\((\w+)", line)
    return called[1].replace("_", " ") if called else "rows"


def widgets_of(notebook: Path) -> list[str]:
    """The names of the widgets that a notebook declares."""
    code = [cell.text for cell in read_cells(notebook) if cell.kind == PYTHON]
    return re.findall(r"""(?m)^dbutils\.widgets\.text\(["'](\w+)["']""", "\n".join(code))


class Widgets:
    """`dbutils.widgets`, as far as the notebooks use it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._defaults: dict[str, str] = {}

    def text(self, name: str, default: str, label: str = "") -> None:
        """Declare a widget."""
        self._defaults[name] = default

    def get(self, name: str) -> str:
        """The widget's value. Raises ValueError for one that was not declared, as Databricks does."""
        if name not in self._defaults:
            raise ValueError(f"no widget {name!r} is declared; there are {', '.join(self._defaults)}")
        return self._given.get(name, self._defaults[name])


class DbUtils:
    """`dbutils`, as far as the notebooks use it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.widgets = Widgets(given)


def print_heading(heading: str) -> None:
    """A heading of the notebook's text."""
    print(f"\n{heading}\n{'=' * len(heading)}")


def print_rows(frame: DataFrame, name: str) -> None:
    """The first rows; where the first column is a time, the newest ones, newest first."""
    first = frame.schema[0]
    in_time = isinstance(first.dataType, TimestampType)
    ordered = frame.orderBy(F.desc(first.name), *frame.columns[1:2]) if in_time else frame
    rows = ordered.take(ROWS_SHOWN + 1)
    more = f", the {'newest' if in_time else 'first'} {ROWS_SHOWN} rows" if len(rows) > ROWS_SHOWN else ""
    columns = [f"{field.name} >" if isinstance(field.dataType, NumericType) else field.name for field in frame.schema]
    print()
    emit_table(columns, rows[:ROWS_SHOWN], title=name + more, empty=f"{name}: no rows")


def main(arguments: list[str]) -> None:
    """Run the notebook that the first argument names, by its path or its name."""
    given = dict(argument.split("=", 1) for argument in arguments[1:] if "=" in argument)
    found = [place for place in map(Path, arguments[:1]) if place.is_file()]
    found += sorted(FOLDER.glob(f"{Path(arguments[0]).name}*.py")) if arguments else []
    if not found or len(given) < len(arguments) - 1:
        known = ", ".join(path.stem for path in sorted(FOLDER.glob("0*.py")))
        raise SystemExit(f"usage: run_local.py NOTEBOOK [name=value]…; the notebooks are {known}")
    widgets = widgets_of(found[0])
    for name in sorted(given.keys() - set(widgets)):
        raise SystemExit(f"run_local.py: {found[0].stem} has no widget {name!r}; its widgets are {', '.join(widgets)}")
    run_cells(found[0], build_session("ballast-notebook"), DbUtils(given), print_rows, print_heading)


if __name__ == "__main__":
    main(sys.argv[1:])
