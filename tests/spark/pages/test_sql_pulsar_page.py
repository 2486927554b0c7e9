"""docs/sql_pulsar.md on the journal of an observed cluster: Spark and DuckDB say the same, and what happened."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.domain.entries import Entry, Kind
from controller.domain.state import METADATA
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections
from controller.ledger.tables import TableRoot
from controller.process.paths import ROOT
from schemas.catalog import TABLES
from schemas.record import BOOLEAN, DOUBLE, LONG, STRING
from tests.questions import DuckQuestions, Rows, SparkQuestions, plain
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import with_settings

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS
ZEROS = {STRING: "", LONG: 0, DOUBLE: 0.0, BOOLEAN: False}
SPARK, DUCK = 0, 1
PARTS = re.split(r"(?m)^(?=## \d)", (ROOT / "docs" / "sql_pulsar.md").read_text())[1:]
QUERIES = {part[3]: re.findall(r"```sql\n(.*?)```", part, re.S) for part in PARTS}
FIRST, SECOND, THIRD, FOURTH = map(str, BUNDLES)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A journal of two days: orders that end in four ways, a move of Pulsar's own, a broker that loses a bundle."""
    folder = tmp_path_factory.mktemp("observed")
    root = TableRoot(folder)
    root.create_all()
    driver = observed_driver(with_settings(order_back_off_ms=1_000))
    for bundle, target, outcome in (
        (0, "b:1", "moved"),
        (3, "c:1", "stayed"),
        (1, "a:1", "moved"),
        (2, "b:1", "expired"),
    ):
        driver.command("unload_bundle", bundle=str(BUNDLES[bundle]), to=target)
        if outcome != "expired":
            owner = target if outcome == "moved" else "a:1"
            driver.end_order(BUNDLES[bundle], outcome, took_ms=100 * bundle + 50, owner=owner, detail=f"d{bundle}")
    driver.tell("a:1", "observed", removed=[FOURTH], requested_seq=driver.state.seq)
    driver.tell("b:1", "observed", added=[FOURTH], requested_seq=driver.state.seq)
    driver.tell("b:1", "observed", removed=[FOURTH], requested_seq=driver.state.seq)
    half = len(driver.journal) // 2
    entries = [
        dataclasses.replace(entry, at_ms=START_MS + (DAY_MS if at > half else 0) + 60_000 * at)
        for at, entry in enumerate(driver.journal)
    ]
    started = Entry(1, Kind.CONTROLLER_STARTED, "i", -1, START_MS, data={"lease_ms": 6_000})
    Journal(root).commit([started, *entries], "i", 1)
    Projections(root).write(driver.state)
    record = TABLES["bundle_load"]
    for name, sessions in ((FIRST, 0.0), (SECOND, 12.0)):
        row = {field.name: ZEROS[field.type] for field in record.fields if not field.nullable}
        append_rows(root, "bundle_load", [{**row, "bundle": name, "as_of_ms": START_MS, "sessions": sessions}])
    return root.root


@pytest.fixture(scope="module")
def ask(spark: Any, tables: str) -> Callable[[str], Rows]:
    asked = SparkQuestions(tables)
    return lambda number: asked(QUERIES[number][SPARK])


@pytest.fixture(scope="module")
def ask_duckdb(tables: str) -> Iterator[Callable[[int | str], Rows]]:
    asked = DuckQuestions(tables)
    yield lambda wanted: asked(QUERIES[wanted][DUCK] if wanted in QUERIES else wanted)
    asked.db.close()


@pytest.mark.parametrize("number", QUERIES)
def test_both_engines_say_the_same(number: str, ask: Any, ask_duckdb: Any) -> None:
    found, expected = ask_duckdb(number), ask(number)
    assert expected
    assert [list(row) for row in found[:1]] == [list(row) for row in expected[:1]], "the columns, in order"
    assert list(map(plain, found)) == list(map(plain, expected))


def test_who_owned_what(ask_duckdb: Any) -> None:
    rows = ask_duckdb("1")
    owned = {name: [row["owner"] for row in rows if row["bundle"] == name] for name in (FIRST, SECOND, THIRD, FOURTH)}
    assert owned == {FIRST: ["a:1", "b:1"], SECOND: ["b:1", "a:1"], THIRD: ["c:1"], FOURTH: ["a:1", "b:1"]}
    last = [row for row in rows if row["bundle"] == FOURTH][-1]
    assert last["until"] is not None, "nobody lists it now"
    assert all(row["until"] is None for row in rows if row["bundle"] == THIRD)


def test_orders_by_outcome_and_day(ask_duckdb: Any) -> None:
    rows = ask_duckdb("2")
    assert sum(row["orders"] for row in rows) == 3, "one is open"
    assert {row["outcome"] for row in rows} == {"moved", "stayed"}
    assert all((row["kind"], row["commanded"]) == ("move", row["orders"]) for row in rows)


def test_moves_without_clients(ask_duckdb: Any) -> None:
    rows = ask_duckdb("3")
    assert sum(row["moves"] for row in rows) == 2
    assert sum(row["without_clients"] for row in rows) == 1
    assert sum(row["clients_moved"] for row in rows) == 12


def test_what_pulsar_moved_by_itself(ask_duckdb: Any) -> None:
    assert [(row["bundle"], row["source"], row["target"]) for row in ask_duckdb("4")] == [(FOURTH, "a:1", "b:1")]


def test_observed_bundles_are_in_the_table_of_ownership(ask_duckdb: Any) -> None:
    rows = {row["bundle"]: row for row in ask_duckdb("SELECT * FROM ownership")}
    assert set(rows) == {FIRST, SECOND, THIRD, FOURTH}
    assert {row["authority"] for row in rows.values()} == {METADATA}
    assert (rows[FIRST]["state"], rows[FIRST]["by_broker"]) == ("owned", "b:1")
    ordered = rows[THIRD]
    assert (ordered["state"], ordered["by_broker"], ordered["to_broker"]) == ("ordered", "c:1", "b:1")
    assert (ordered["order_kind"], ordered["order_id"] is not None) == ("move", True)
    assert (rows[FOURTH]["state"], rows[FOURTH]["by_broker"], rows[FOURTH]["orders_failed"]) == ("unknown", None, 1)


def test_the_usual_queries_count_observed_bundles(ask_duckdb: Any) -> None:
    found = {(row["broker"], row["state"]): row["bundles"] for row in ask_duckdb(1)}
    assert found == {("a:1", "owned"): 1, ("b:1", "owned"): 1, ("c:1", "ordered"): 1, ("nobody", "unknown"): 1}


def test_the_page_has_each_query_for_both_engines() -> None:
    assert list(QUERIES) == ["1", "2", "3", "4"]
    assert all(len(blocks) == 2 for blocks in QUERIES.values())
