"""notebooks/01_operations.py runs from top to bottom, as on Databricks and as a plain script."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
from typing import Any

import pytest

from controller.domain.decision import OF_STEP
from controller.domain.entries import Kind
from schemas.catalog import TABLES
from tests.short_run import ShortRun
from tests.spark.pages.notebooks import FOLDER, check_source_format, rows, run_notebook, run_on_databricks

pytestmark = pytest.mark.spark
NOTEBOOK = FOLDER / "01_operations.py"


@pytest.fixture(scope="module")
def run(spark: Any, short_run: ShortRun) -> tuple[dict[str, Any], str]:
    """Its variables after it ran as a script, on the session of the tests, from a relative path; what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = run_notebook(NOTEBOOK, tables=os.path.relpath(short_run.root.root))
    assert result["spark"] is spark
    return result, printed.getvalue()


@pytest.fixture(scope="module")
def variables(run: tuple[dict[str, Any], str]) -> dict[str, Any]:
    return run[0]


def test_as_a_script_it_prints_headings_and_the_newest_rows(run: tuple[dict[str, Any], str]) -> None:
    variables, printed = run
    headings = re.findall(r"^# MAGIC #+ (.*)$", NOTEBOOK.read_text(), re.MULTILINE)
    lines = printed.splitlines()
    assert [line for line, below in itertools.pairwise(lines) if below == "=" * len(line) != ""] == headings
    begin = next(at for at, line in enumerate(lines) if line.startswith("broker history"))
    shown = [line[:19] for line in lines[begin + 2 : begin + 5]]
    newest = sorted((row["at"] for row in rows(variables, "broker_history")), reverse=True)[:3]
    assert shown == [f"{at:%Y-%m-%d %H:%M:%S}" for at in newest]


def test_the_source_format_is_databricks_own() -> None:
    check_source_format(NOTEBOOK, more_cells_than=10)


def test_the_cluster_now(variables: dict[str, Any], short_run: ShortRun) -> None:
    found = rows(variables, "brokers_now")
    assert [row["broker"] for row in found] == ["b1:8080", "b2:8080", "b3:8080"]
    assert sum(row["bundles"] for row in found) == sum(r.by is not None for r in short_run.state.bundles.values())
    assert {row["state"] for row in rows(variables, "on_the_way")} == {"free", "transferring"}


def test_load_history_follows_the_load(variables: dict[str, Any]) -> None:
    history = rows(variables, "broker_history")
    assert {row["broker"] for row in history} == {"b1:8080", "b2:8080", "b3:8080"}
    assert max(row["utilisation_pct"] for row in history) > 80 > min(row["utilisation_pct"] for row in history)
    namespaces = rows(variables, "namespace_history")
    assert {row["namespace"] for row in namespaces} == {"shop/orders", "shop/clicks"}
    first = next(row for row in namespaces if row["namespace"] == "shop/orders")
    assert first["messages_per_s"] == pytest.approx(8 * 2_000, rel=0.05)
    assert first["bundles_reported"] == 8


def test_decisions_and_what_was_held_back(variables: dict[str, Any], short_run: ShortRun) -> None:
    decided = rows(variables, "decided")
    executed = {row["decision_id"] for row in decided if row["outcome"] == "executed"}
    begun = {e.decision_id for e in short_run.entries if e.decision_id and "-" in e.decision_id}
    assert executed == {name for name in begun if not name.startswith(OF_STEP)}, "of rounds alone"
    assert executed < begun
    assert "301_shadow_mode" in {row["outcome"] for row in decided}
    assert "200_hit_count" in {row["reason"] for row in rows(variables, "held_back")}


def test_hand_over_times(variables: dict[str, Any], short_run: ShortRun) -> None:
    found = {row["how"]: row for row in rows(variables, "hand_overs")}
    assert {"transfer", "unload", "failover", "first assignment"} == set(found)
    ended = [e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.reason == "owner_ended"]
    assert found["failover"]["times"] == len(ended)
    assert all(row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"] for row in found.values())


def test_quarantine_and_table_health(variables: dict[str, Any]) -> None:
    assert sum(row["records"] for row in rows(variables, "quarantined")) == 4
    health = rows(variables, "table_health")
    assert [row["table"] for row in health] == list(TABLES)
    assert all(row["reader_version"] == 1 for row in health)
    assert all(row["version"] > 0 for row in health if row["table"] not in ("overrides", "usage_model"))


def test_widgets_narrow_the_view_and_names_may_be_given(spark: Any, short_run: ShortRun) -> None:
    """As on Databricks: the names are there already, nothing is imported from beside the notebook."""
    values = {"tables": short_run.root.root, "hours": "0.005", "namespace": "shop/clicks"}
    result, shown = run_on_databricks(NOTEBOOK, spark, values)
    assert len(shown) == 10
    namespaces = [row["namespace"] for row in result["namespace_history"].collect()]
    assert set(namespaces) == {"shop/clicks"}
    assert len(namespaces) == 2  # 0.005 hours: the panes of the last 18 s
