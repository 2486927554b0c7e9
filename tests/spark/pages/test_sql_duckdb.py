"""docs/sql_duckdb.md: every block runs in DuckDB over delta-rs and says what Spark says on the same tables."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest

from controller.domain.entries import Kind
from controller.process.paths import ROOT
from tests.short_run import ShortRun
from tests.spark.pages.sql_pages import PLACE, SqlPage

pytestmark = pytest.mark.spark
SPARK, DUCKDB = SqlPage.read(ROOT / "docs" / "sql.md"), SqlPage.read(ROOT / "docs" / "sql_duckdb.md")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def duckdb_rows(short_run: ShortRun) -> Any:
    """Runs a query of the page by its number, after the page's own preparation in Python and SQL."""
    made: dict[str, Any] = {}
    exec(DUCKDB.python.replace(PLACE, short_run.root.root), made)
    db = made["db"]
    db.execute(DUCKDB.setup)

    def ask(number: str, **args: str) -> Rows:
        found = db.execute(DUCKDB.queries[number], args) if args else db.execute(DUCKDB.queries[number])
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    yield ask
    db.close()


@pytest.fixture(scope="module")
def spark_rows(spark: Any, short_run: ShortRun) -> Any:
    for statement in SPARK.setup.replace(PLACE, short_run.root.root).split(";"):
        if statement.strip():
            spark.sql(statement)
    return lambda number, **args: [row.asDict() for row in spark.sql(SPARK.queries[number], args=args).collect()]


def test_both_pages_ask_the_same() -> None:
    assert DUCKDB.headings == SPARK.headings
    assert list(DUCKDB.queries) == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("number", sorted(SPARK.queries, key=int))
def test_duckdb_says_what_spark_says(number: str, duckdb_rows: Any, spark_rows: Any, short_run: ShortRun) -> None:
    moved = next(
        e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.decision_id and e.state == "transferring"
    )
    args = {"bundle": moved.bundle} if ":bundle" in SPARK.queries[number] else {}
    found, expected = duckdb_rows(number, **args), spark_rows(number, **args)
    assert expected, "the short run has something for each query"
    assert [list(row) for row in found[:1]] == [list(row) for row in expected[:1]], "the columns, in order"
    assert sorted(map(_plain, found)) == sorted(map(_plain, expected))


def test_the_page_needs_no_extension_that_is_downloaded() -> None:
    whole = DUCKDB.python + DUCKDB.setup + "".join(DUCKDB.queries.values())
    assert "INSTALL" not in whole.upper()
    assert "delta_scan" not in whole


def _plain(row: dict[str, Any]) -> str:
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
