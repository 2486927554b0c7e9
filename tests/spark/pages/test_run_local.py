"""notebooks/run_local.py runs cells as Databricks does: text, SQL with widgets, and Python, in one set of names."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.spark.pages.notebooks import run_local, run_notebook

pytestmark = pytest.mark.spark
NOTEBOOK = """# Databricks notebook source
# MAGIC %md
# MAGIC # A heading
# MAGIC Text: with a colon.
# MAGIC ## Another

# COMMAND ----------

dbutils.widgets.text("most", "2", "Largest number")
dbutils.widgets.text("word", "", "A word")

# COMMAND ----------

# DBTITLE 1,Numbers
# MAGIC %sql
# MAGIC SELECT id, :word AS word, from_json('{"a": 1}', 'struct<a:int>').a AS one
# MAGIC FROM range(0, 5)
# MAGIC WHERE id <= CAST(:most AS INT)
# MAGIC ORDER BY id

# COMMAND ----------

# DBTITLE 1,A view
# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMPORARY VIEW small_numbers AS SELECT id FROM range(0, 3)

# COMMAND ----------

two_times = spark.sql("SELECT 2 * id AS doubled FROM small_numbers ORDER BY id")
display(two_times)
if dbutils.widgets.get("word") == "fail":
    raise RuntimeError("as asked")
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    place = tmp_path / "99_small.py"
    place.write_text(NOTEBOOK)
    return place


def test_cells_know_their_kind_title_and_place(notebook: Path) -> None:
    cells = run_local.read_cells(notebook)
    assert [(cell.kind, cell.title) for cell in cells] == [
        ("md", ""), ("python", ""), ("sql", "Numbers"), ("sql", "A view"), ("python", "")
    ]  # fmt: skip
    lines = NOTEBOOK.splitlines()
    assert lines[cells[1].line - 1] == cells[1].text.splitlines()[0]
    assert cells[2].text.startswith("SELECT id")


def test_widgets_are_parameters_of_sql(spark: Any, notebook: Path) -> None:
    ran = run_notebook(notebook, spark, word="b'c", most=1)
    assert ran.headings == ["A heading", "Another"]
    assert ran.shown == {
        "Numbers": [{"id": 0, "word": "b'c", "one": 1}, {"id": 1, "word": "b'c", "one": 1}],
        "two times": [{"doubled": 0}, {"doubled": 2}, {"doubled": 4}],
    }
    assert ran.names["_sqldf"].columns == [], "of the last SQL cell"


def test_an_error_names_its_line_of_the_file(spark: Any, notebook: Path) -> None:
    with pytest.raises(RuntimeError, match="as asked") as failed:
        run_notebook(notebook, spark, word="fail")
    where = traceback.extract_tb(failed.value.__traceback__)[-1]
    assert (where.filename, where.lineno) == (str(notebook), len(NOTEBOOK.splitlines()))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("print(1)\n", "is no notebook"),
        ("", "is no notebook"),
        (NOTEBOOK.replace("%md", "%scala"), ":2: magic %scala is neither %md nor %sql"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    place = tmp_path / "other.py"
    place.write_text(text)
    with pytest.raises(ValueError, match=wrong):
        run_local.read_cells(place)


def test_a_value_for_a_widget_that_is_not_there_is_one_line(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was ignored, and the notebook failed on the tables of its default."""
    monkeypatch.setattr(run_local, "build_session", lambda name: pytest.fail("Spark was started for nothing"))
    with pytest.raises(SystemExit) as refused:
        run_local.main([str(notebook), "most=1", "moast=3"])
    assert str(refused.value) == "run_local.py: 99_small has no widget 'moast'; its widgets are most, word"
    with pytest.raises(SystemExit, match="05_incident has no widget 'tables'; its widgets are slice"):
        run_local.main(["05_incident", "tables=run/tables"])


def test_the_widgets_of_a_notebook_are_those_that_it_declares(notebook: Path) -> None:
    assert run_local.widgets_of(notebook) == ["most", "word"]
    assert run_local.widgets_of(run_local.FOLDER / "02_why.py") == ["tables", "decision", "window_s"]


def test_a_notebook_that_is_not_there_is_one_line() -> None:
    for words in ([], ["06_nothing"], ["02_why", "tables"]):
        with pytest.raises(SystemExit, match=r"usage: run_local\.py NOTEBOOK .* 02_why"):
            run_local.main(words)
    widgets = run_local.Widgets({})
    widgets.text("tables", "run/tables")
    with pytest.raises(ValueError, match="no widget 'hours' is declared; there are tables"):
        widgets.get("hours")
