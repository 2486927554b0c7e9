"""The three names that Databricks gives a notebook, for plain Python: `spark`, `dbutils.widgets`, `display`.

A widget's value is the argument `name=value` of the command line, else its default. `display` prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame

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
    """Print the first rows."""
    frame.show(ROWS_SHOWN, truncate=False)


dbutils = DbUtils(sys.argv[1:])
spark = build_session("ballast-notebook")
