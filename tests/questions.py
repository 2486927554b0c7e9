"""The questions of docs/sql as tests see them, and the engines prepared as docs/sql.md says.

The page's own blocks of Python make the session and the connection, so what tests run is what a reader copies.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "sql.md"
FOLDER = ROOT / "docs" / "sql"
VIEWS = FOLDER / "views"
PLACE = "/srv/ballast/tables"  # where the page says that the tables lie
HERE = "docs/sql"  # where the page says that the questions lie
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Question:
    """`number` and `name` are those of the file, `words` is the first line of its header."""

    number: int
    name: str
    words: str
    text: str

    @classmethod
    def read(cls, path: Path) -> Question:
        """A file of docs/sql."""
        number, _, name = path.stem.partition("_")
        text = path.read_text(encoding="utf-8")
        return cls(int(number), name, text.splitlines()[0].removeprefix("-- "), text)


QUESTIONS = {question.number: question for question in map(Question.read, sorted(FOLDER.glob("*.sql")))}


def statements(script: str) -> list[str]:
    """The statements of a script of docs/sql/views."""
    text = (VIEWS / f"{script}.sql").read_text(encoding="utf-8")
    return [statement for statement in text.split(";") if statement.strip()]


def block(about: str) -> str:
    """The one block of Python under a heading of the page."""
    parts = re.split(r"(?m)^(?=## )", PAGE.read_text(encoding="utf-8"))
    (part,) = (part for part in parts if part.startswith(f"## {about}\n"))
    (found,) = re.findall(r"```python\n(.*?)```", part, re.S)
    return str(found)


def run_block(about: str, tables: str) -> dict[str, Any]:
    """What the block's names are after it ran on these tables."""
    text = block(about)
    assert PLACE in text
    made: dict[str, Any] = {}
    exec(text.replace(PLACE, tables).replace(f'"{HERE}"', f'"{FOLDER}"'), made)
    return made


class SparkQuestions:
    """Asks Spark, by the session that the page's block prepares. Answers are kept, because Spark takes its time.

    Views belong to the session, so the block runs again where another run's tables were asked in between.
    """

    _asked: ClassVar[str] = ""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        self._answers: dict[str, Rows] = {}
        self._prepare()

    def __call__(self, question: int | str, **args: str) -> Rows:
        """The rows of a question, by its number, or of any text."""
        text = QUESTIONS[question].text if isinstance(question, int) else question
        key = f"{text} {args}"
        if key not in self._answers:
            if SparkQuestions._asked != self.tables:
                self._prepare()
            self._answers[key] = [row.asDict() for row in self.spark.sql(text, args=args).collect()]
        return self._answers[key]

    def _prepare(self) -> None:
        self.spark = run_block("Spark", self.tables)["spark"]
        SparkQuestions._asked = self.tables


class DuckQuestions:
    """Asks DuckDB; `db` is the connection that the page's block has made."""

    def __init__(self, tables: str) -> None:
        self._made = run_block("DuckDB", tables)
        self.db = self._made["db"]

    def __call__(self, question: int | str, **args: str) -> Rows:
        """The rows of a question, by its number, or of any text."""
        text = QUESTIONS[question].text if isinstance(question, int) else question
        found = self._made["ask"](text, **args)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def plain(row: dict[str, Any]) -> str:
    """A row as text that is the same for both engines."""
    return str({name: _value(value) for name, value in row.items()})


def _value(value: Any) -> Any:
    """Whole numbers, decimals and doubles alike; times without a zone, in UTC."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float) or type(value).__name__ == "Decimal":
        return "nan" if math.isnan(value) else f"{float(value):.6g}"
    return [_value(each) for each in value] if isinstance(value, list) else str(value)
