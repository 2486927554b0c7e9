"""The examples of docs/sql.md for data frames say what the sixth question says."""

from __future__ import annotations

import pytest

from tests.questions import DuckQuestions, run_block
from tests.short_run import ShortRun


def test_pandas(ask: DuckQuestions, run: ShortRun) -> None:
    history = run_block("pandas", run.root.root)["history"]
    expected = {(f"{row['at_time']:%H:%M:%S}", row["broker"]): row["score_pct"] for row in ask(6)}
    found = {
        (f"{at_time:%H:%M:%S}", broker): round(100 * score, 1)
        for broker, scores in history.items()
        for at_time, score in scores.items()
    }
    assert found == expected
    assert str(history.index.tz) == "UTC"


def test_polars(ask: DuckQuestions, run: ShortRun) -> None:
    pytest.importorskip("polars", reason="Polars is not among the tools of this environment")
    history = run_block("Polars", run.root.root)["history"]
    assert [(at_time, broker, round(100 * score, 1)) for at_time, broker, score in history.rows()] == [
        (row["at_time"], row["broker"], row["score_pct"]) for row in ask(6)
    ]
