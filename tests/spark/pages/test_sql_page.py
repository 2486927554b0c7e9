"""docs/sql.md and docs/sql_duckdb.md on the tables of a short run.

Every query of the first page runs in Spark and says what really happened; every query of the second runs in DuckDB over
delta-rs and says what Spark says. Spark answers each query once.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any

import pytest

from controller.domain.entries import Kind
from controller.domain.ownership import State
from controller.process.paths import ROOT
from tests.short_run import ShortRun
from tests.spark.pages.sql_pages import PLACE, SqlPage

pytestmark = pytest.mark.spark
PAGE, DUCKDB = SqlPage.read(ROOT / "docs" / "sql.md"), SqlPage.read(ROOT / "docs" / "sql_duckdb.md")
Rows = list[dict[str, Any]]
Ask = Callable[..., Rows]
QUERIES = PAGE.queries


@pytest.fixture(scope="module")
def ask(spark: Any, short_run: ShortRun) -> Ask:
    """Runs a query of the page by its number, after the page's own preparation."""
    assert f"= {PLACE};" in PAGE.setup, "Spark's SQL takes no relative path"
    for statement in PAGE.setup.replace(PLACE, short_run.root.root).split(";"):
        if statement.strip():
            spark.sql(statement)
    answers: dict[str, Rows] = {}

    def ask(number: int, **args: str) -> Rows:
        key = f"{number} {args}"
        if key not in answers:
            answers[key] = [row.asDict() for row in spark.sql(QUERIES[str(number)], args=args).collect()]
        return answers[key]

    return ask


@pytest.fixture(scope="module")
def ask_duckdb(short_run: ShortRun) -> Any:
    """Runs a query of the other page by its number, after that page's preparation in Python and SQL."""
    made: dict[str, Any] = {}
    exec(DUCKDB.python.replace(PLACE, short_run.root.root), made)
    db = made["db"]
    db.execute(DUCKDB.setup)

    def ask(number: int, **args: str) -> Rows:
        query = DUCKDB.queries[str(number)]
        found = db.execute(query, args) if args else db.execute(query)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    yield ask
    db.close()


def test_the_page_keeps_its_word() -> None:
    assert list(QUERIES) == [str(number) for number in range(1, 11)]


def test_every_living_bundle_is_counted_once(ask: Ask, short_run: ShortRun) -> None:
    rows = ask(1)
    living = [r for r in short_run.state.bundles.values() if r.state is not State.RETIRED]
    assert sum(row["bundles"] for row in rows) == len(living)
    nobodys = [row for row in rows if row["broker"] == "nobody"]
    assert [(row["state"], row["bundles"], row["least_epoch"]) for row in nobodys] == [("free", 1, 0)]
    assert {row["state"] for row in rows} == {"free", "owned", "transferring"}


def test_a_history_names_decisions_and_commands(ask: Ask, short_run: ShortRun) -> None:
    moved = next(
        e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.decision_id and e.state == "transferring"
    )
    rows = ask(2, bundle=moved.bundle)
    written = [e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.bundle == moved.bundle]
    assert [row["seq"] for row in rows] == [e.seq for e in written]
    decided = next(row for row in rows if row["seq"] == moved.seq)
    assert decided["decision_id"] == moved.decision_id
    assert decided["source_predicted"] < decided["source_before"]
    assert {row["commanded_by"] for row in rows} == {None, "anna@ops"}


@pytest.mark.covers("decision-breakdown")
def test_what_was_decided_against_has_its_reason(ask: Ask) -> None:
    found = {(row["kind"], row["reason"], row["outcome"]) for row in ask(3)}
    assert ("skip", "200_hit_count", "decided against") in found
    assert ("transfer", "102_above_mean", "301_shadow_mode") in found
    assert ("skip", "100_balanced", "decided against") in found


def test_the_busiest_bundle_comes_first(ask: Ask, short_run: ShortRun) -> None:
    rows = ask(4)
    rates = {b: r for b, r in short_run.load.rates.items() if short_run.state.bundles[b].state is not State.RETIRED}
    assert rows[0]["messages_per_s"] == pytest.approx(2 * max(rates.values()), rel=0.05)
    assert {row["bundle"] for row in rows} == set(rates)
    assert all(row["broker"] == short_run.state.bundles[row["bundle"]].by.broker for row in rows)


def test_what_moved_twice_is_found(ask: Ask, short_run: ShortRun) -> None:
    owners: dict[str, list[str]] = {}
    for entry in short_run.entries:
        if entry.kind is Kind.OWNERSHIP and entry.state == "owned":
            broker = entry.by.partition("#")[0]
            if owners.setdefault(entry.bundle, [broker])[-1] != broker:
                owners[entry.bundle].append(broker)
    expected = {bundle: len(brokers) - 2 for bundle, brokers in owners.items() if len(brokers) > 2}
    assert {row["bundle"]: row["quick_moves"] for row in ask(5)} == expected
    assert expected


def test_scores_leave_out_a_round_that_never_counted(ask: Ask, short_run: ShortRun) -> None:
    rows = ask(6)
    rounds = [e for e in short_run.entries if e.kind is Kind.ROUND]
    assert len(rows) == 3 * len(rounds)
    assert any(row["is_source"] for row in rows)


def test_quarantine_is_counted_by_rule(ask: Ask) -> None:
    rows = ask(7)
    assert sum(row["records"] for row in rows) == 4
    assert {row["rule"] for row in rows} == {"not_json", "version", "event_kind"}


def test_durations_by_what_happened(ask: Ask, short_run: ShortRun) -> None:
    rows = {row["how"]: row for row in ask(8)}
    assert {"first assignment", "transfer", "unload", "failover"} <= set(rows)
    assert rows["transfer"]["came_back"] == 1
    ended = [e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.reason == "owner_ended"]
    assert rows["failover"]["times"] == len(ended)
    assert all(0 < row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"] < 60_000 for row in rows.values())


def test_every_half_knows_its_parent(ask: Ask, short_run: ShortRun) -> None:
    rows = ask(9)
    splits = [e for e in short_run.entries if e.kind is Kind.SPLIT]
    assert len(rows) == 2 * len(splits) == 4
    assert {row["reason"] for row in rows} == {"commanded", "112_split_msg_rate"}
    assert all(row["epoch_now"] >= row["first_epoch"] for row in rows)
    assert all(row["boundary"].startswith("0x") and row["boundary"] in row["child"] for row in rows)


def test_predictions_are_compared_with_later_rounds(ask: Ask) -> None:
    rows = ask(10)
    assert rows
    assert all(row["predicted_pct"] < row["before_pct"] for row in rows)
    assert all(
        row["missed_by_points"] == pytest.approx(row["realised_pct"] - row["predicted_pct"], abs=0.11) for row in rows
    )


def test_both_pages_ask_the_same() -> None:
    assert DUCKDB.headings == PAGE.headings
    assert list(DUCKDB.queries) == list(QUERIES)


@pytest.mark.parametrize("number", range(1, 11))
def test_duckdb_says_what_spark_says(number: int, ask_duckdb: Ask, ask: Ask, short_run: ShortRun) -> None:
    moved = next(
        e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.decision_id and e.state == "transferring"
    )
    args = {"bundle": moved.bundle} if ":bundle" in QUERIES[str(number)] else {}
    found, expected = ask_duckdb(number, **args), ask(number, **args)
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
