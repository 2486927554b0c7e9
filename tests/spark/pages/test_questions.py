"""Spark answers the questions of docs/sql as DuckDB does, whose answers tests/component/questions checks.

The same text in both engines, on the tables of a short run and, for weekdays and growth, of two weeks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.component.questions.told import first_move_of_a_round
from tests.questions import QUESTIONS, DuckQuestions, SparkQuestions, plain
from tests.short_run import ShortRun
from tests.waiting_plans import Waiting, play_approved
from tests.weeks_of_load import write_weeks

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
COUNTED = """
SELECT as_of_ms, broker, {bundle} AS bundle, reports, batch_id, msg_rate_in
FROM {view}
ORDER BY as_of_ms, broker, bundle
"""
OF_LOAD = (14, 15, 16)  # those that a run of minutes says little about
OF_APPROVALS = (2, 3, 10, 12)


@pytest.fixture(scope="module")
def ask(spark: Any, short_run: ShortRun) -> SparkQuestions:
    found = SparkQuestions(short_run.root.root)
    assert found.spark is spark
    return found


@pytest.fixture(scope="module")
def ask_duckdb(short_run: ShortRun) -> Iterator[DuckQuestions]:
    found = DuckQuestions(short_run.root.root)
    yield found
    found.db.close()


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_weeks(tmp_path_factory.mktemp("weeks") / "tables").root.root


@pytest.mark.parametrize("number", QUESTIONS)
def test_spark_says_what_duckdb_says(
    number: int, ask: SparkQuestions, ask_duckdb: DuckQuestions, short_run: ShortRun
) -> None:
    moved = str(first_move_of_a_round(short_run.entries).bundle)
    args = {"bundle": moved} if ":bundle" in QUESTIONS[number].text else {}
    found, expected = ask(number, **args), ask_duckdb(number, **args)
    assert expected, "the short run has something for each question"
    assert [list(row) for row in found[:1]] == [list(row) for row in expected[:1]], "the columns, in order"
    assert list(map(plain, found)) == list(map(plain, expected)), "the rows, in order"


@pytest.mark.parametrize(
    "question",
    [
        *OF_LOAD,
        COUNTED.format(view="broker_load", bundle="''"),
        COUNTED.format(view="bundle_load", bundle="bundle"),
    ],
    ids=[*map(str, OF_LOAD), "broker_load", "bundle_load"],
)
def test_spark_says_the_same_of_two_weeks(question: int | str, spark: Any, weeks: str) -> None:
    duck = DuckQuestions(weeks)
    found, expected = SparkQuestions(weeks)(question), duck(question)
    duck.db.close()
    assert list(map(plain, found)) == list(map(plain, expected))


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    return play_approved(tmp_path_factory.mktemp("approved") / "tables")


@pytest.mark.parametrize("number", OF_APPROVALS)
def test_spark_says_the_same_of_an_approved_plan(number: int, spark: Any, approved: Waiting) -> None:
    tables = approved.run.root.root
    args = {"bundle": approved.bundle_of(1)} if ":bundle" in QUESTIONS[number].text else {}
    duck = DuckQuestions(tables)
    found, expected = SparkQuestions(tables)(number, **args), duck(number, **args)
    duck.db.close()
    assert expected
    assert list(map(plain, found)) == list(map(plain, expected))


def test_no_view_is_missing_in_either_engine(ask: SparkQuestions, ask_duckdb: DuckQuestions) -> None:
    for view in (
        "journal",
        "commands",
        "split_children",
        "plans",
        "all_decisions",
        "written_broker_load",
        "written_bundle_load",
        "broker_load",
        "bundle_load",
        "quarantine",
    ):
        text = f"SELECT * FROM {view} LIMIT 1"
        assert [list(row) for row in ask(text)] == [list(row) for row in ask_duckdb(text)], view
