"""Tables of three runs, and DuckDB on them, prepared as docs/sql.md says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.questions import DuckQuestions
from tests.short_run import ShortRun, begin_skewed, play
from tests.waiting_plans import Waiting, play_approved
from tests.weeks_of_load import write_weeks


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    return play(tmp_path_factory.mktemp("questions") / "tables")


@pytest.fixture(scope="package")
def ask(run: ShortRun) -> Iterator[DuckQuestions]:
    yield from _asked(run)


@pytest.fixture(scope="package")
def ask_of_weeks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckQuestions]:
    yield from _asked(write_weeks(tmp_path_factory.mktemp("weeks") / "tables"))


@pytest.fixture(scope="package")
def challenged(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """A skewed cluster whose rounds have two challengers."""
    run = begin_skewed(tmp_path_factory.mktemp("challenged") / "tables", brokers=3, bundles=9, hot=2)
    run.command("strategy", challengers=["average", "uniform"])
    for _ in range(4):
        run.round()
        run.panes(1)
    run.project()
    return run


@pytest.fixture(scope="package")
def ask_challenged(challenged: ShortRun) -> Iterator[DuckQuestions]:
    yield from _asked(challenged)


@pytest.fixture(scope="package")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    """A plan that waited, was approved, and was carried out but for one move."""
    return play_approved(tmp_path_factory.mktemp("approved") / "tables")


@pytest.fixture(scope="package")
def ask_approved(approved: Waiting) -> Iterator[DuckQuestions]:
    yield from _asked(approved.run)


def _asked(run: ShortRun) -> Iterator[DuckQuestions]:
    found = DuckQuestions(run.root.root)
    yield found
    found.db.close()
