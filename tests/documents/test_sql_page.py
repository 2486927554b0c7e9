"""docs/sql.md and the files of docs/sql: the page lists all, each says what it asks, every engine has the views."""

from __future__ import annotations

import re

import pytest

from schemas.catalog import TABLES
from tests.questions import PAGE, QUESTIONS, VIEWS, Question, block, statements

TEXT = PAGE.read_text(encoding="utf-8")
ENGINES = ("spark", "duckdb", "trino")
OF_ONE_ENGINE = (
    "from_json",
    "get_json_object",
    "timestamp_millis",
    "epoch_ms",
    "->>",
    "::",
    "`",
    "explode",
    "unnest",
    '"',
)
MADE = re.compile(r"(?m)^CREATE OR REPLACE (?:TEMPORARY )?VIEW (\w+) AS")
READ = re.compile(r"\b(?:FROM|JOIN) ([a-z_]+)")


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def views_of(script: str) -> set[str]:
    """The views that a script makes."""
    return set(MADE.findall((VIEWS / f"{script}.sql").read_text(encoding="utf-8")))


def test_there_are_twenty_questions_and_the_page_lists_them() -> None:
    assert list(QUESTIONS) == list(range(1, 21))
    listed = re.findall(r"^\| \[(\d\d)\]\(sql/(\w+)\.sql\) \| (.*) \|$", TEXT, re.MULTILINE)
    assert listed == [(f"{q.number:02}", f"{q.number:02}_{q.name}", q.words) for q in QUESTIONS.values()]


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=lambda question: question.name)
def test_a_file_says_what_it_asks_and_what_the_answer_means(question: Question) -> None:
    lines = question.text.splitlines()
    header = lines[: next(at for at, line in enumerate(lines) if not line.startswith("--"))]
    assert header[0].endswith("?")
    assert header[1] == "--"
    assert len(" ".join(header[2:])) > 100
    assert ";" not in question.text, "one statement, which any client takes"
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=lambda question: question.name)
def test_a_question_is_of_no_engine(question: Question) -> None:
    text = without_comments(question.text)
    assert [word for word in OF_ONE_ENGINE if word in text] == []
    made_here = set(re.findall(r"(?m)^(?:WITH )?(\w+) AS \($", text))
    known = views_of("spark") | views_of("common")
    assert set(READ.findall(text)) - made_here <= known


def test_engines_have_the_same_views() -> None:
    spark, duckdb, trino = map(views_of, ENGINES)
    assert spark == duckdb == trino
    assert {"journal", "commands", "split_children", "written_broker_load"} <= spark
    common = without_comments((VIEWS / "common.sql").read_text(encoding="utf-8"))
    assert [word for word in OF_ONE_ENGINE if word in common] == []


def test_each_engine_names_the_tables_that_its_views_read() -> None:
    read = {name for script in ENGINES for name in re.findall(r"\b(\w+)_files\b", " ".join(statements(script)))}
    paths = " ".join(statements("paths_spark"))
    assert set(re.findall(r"VIEW (\w+)_files AS SELECT \* FROM delta.`\$\{ballast.tables\}/(\w+)`", paths)) == {
        (name, name) for name in read
    }
    names = " ".join(statements("names_databricks"))
    assert set(re.findall(r"VIEW (\w+)_files AS SELECT \* FROM main.ballast.(\w+)", names)) == {(n, n) for n in read}
    (listed,) = re.findall(r'names = "(.*)"', block("DuckDB"))
    assert set(listed.split()) == read
    trino = " ".join(statements("trino"))
    assert set(re.findall(r"'(\w+)_files', 's3://CHANGE-ME/ballast/(\w+)'", trino)) == {(name, name) for name in read}
    assert read < set(TABLES)


def test_unity_catalog_gets_every_table_to_read_and_nothing_to_write() -> None:
    script = " ".join(statements("register_databricks"))
    made = re.findall(r"CREATE TABLE IF NOT EXISTS main.ballast.(\w+) USING DELTA LOCATION '\S+/ballast/(\w+)'", script)
    assert made == [(name, name) for name in TABLES]
    assert set(re.findall(r"GRANT (.*?) ON", script)) == {"USE CATALOG", "USE SCHEMA, SELECT"}


def test_duckdb_needs_no_extension_that_is_downloaded() -> None:
    whole = block("DuckDB") + " ".join(statements("duckdb") + statements("common"))
    assert "INSTALL" not in whole.upper()
    assert "delta_scan" not in whole


def test_every_notebook_is_on_the_page() -> None:
    notebooks = sorted(path.name for path in (PAGE.parents[1] / "notebooks").glob("0*.py"))
    assert re.findall(r"^\| `notebooks/(\S+)` \|", TEXT, re.MULTILINE) == notebooks
