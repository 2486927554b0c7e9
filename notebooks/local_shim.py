"""The three names that Databricks gives a notebook, for plain Python: `spark`, `dbutils.widgets`, `display`.

A widget's value is the argument `name=value` of the command line, else its default. `display` prints the
headings of the text above its cell, the name of what is shown, and the first rows, of history the newest.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, TimestampType

from controller.cli.show import emit_table
from jobs.session import build_session

ROWS_SHOWN = 30


class Widgets:
    """`dbutils.widgets`, as far as the notebooks use it."""

    def __init__(self, arguments: list[str]) -> None:
        self._given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
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

    def __init__(self, arguments: list[str]) -> None:
        self.widgets = Widgets(arguments)


def display(frame: DataFrame) -> None:
    """Print the first rows; where the first column is a time, the newest ones, newest first."""
    caller = sys._getframe(1)
    headings, name = _place(Path(caller.f_code.co_filename), caller.f_lineno)
    for heading in headings:
        print(f"\n{heading}\n{'=' * len(heading)}")
    first = frame.schema[0]
    in_time = isinstance(first.dataType, TimestampType)
    ordered = frame.orderBy(F.desc(first.name), *frame.columns[1:2]) if in_time else frame
    rows = ordered.take(ROWS_SHOWN + 1)
    more = f", the {'newest' if in_time else 'first'} {ROWS_SHOWN} rows" if len(rows) > ROWS_SHOWN else ""
    print()
    columns = [f"{field.name} >" if isinstance(field.dataType, NumericType) else field.name for field in frame.schema]
    emit_table(columns, rows[:ROWS_SHOWN], title=name + more, empty=f"{name}: no rows")


def _place(source: Path, line: int) -> tuple[list[str], str]:
    """The headings above this line that no `display` before it has printed, and the name of what it displays."""
    lines = source.read_text(encoding="utf-8").splitlines()
    called = re.match(r"display\((\w+)", lines[line - 1])
    headings: list[str] = []
    for text in reversed(lines[: line - 1]):
        if text.startswith("display("):
            break
        found = re.match(r"# MAGIC #+ (.*)", text)
        if found:
            headings.insert(0, found[1])
    return headings, called[1].replace("_", " ") if called else "rows"


dbutils = DbUtils(sys.argv[1:])
spark = build_session("ballast-notebook")
