"""notebooks/01_operations.py runs from top to bottom, as on Databricks and as a plain script."""

from __future__ import annotations

import datetime
import itertools
import os
import re
from typing import Any

import pytest

from controller.domain.decision import OF_STEP
from controller.domain.entries import Kind
from schemas.catalog import TABLES
from tests.short_run import ShortRun
from tests.spark.pages.notebooks import (
    FOLDER,
    Ran,
    check_plots,
    check_source_format,
    print_notebook,
    run_notebook,
)

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
NOTEBOOK = FOLDER / "01_operations.py"


@pytest.fixture(scope="module")
def ran(spark: Any, short_run: ShortRun) -> Ran:
    return run_notebook(NOTEBOOK, spark, tables=short_run.root.root)


def test_as_a_script_it_prints_headings_and_the_newest_rows(ran: Ran, short_run: ShortRun) -> None:
    lines = print_notebook("01_operations", tables=os.path.relpath(short_run.root.root))
    headings = re.findall(r"^# MAGIC #+ (.*)$", NOTEBOOK.read_text(), re.MULTILINE)
    assert [line for line, below in itertools.pairwise(lines) if below == "=" * len(line) != ""] == headings
    assert ran.headings == headings
    begin = next(at for at, line in enumerate(lines) if line.startswith("broker history"))
    shown = [line[:19] for line in lines[begin + 2 : begin + 5]]
    newest = sorted((row["at_time"] for row in ran.rows("broker_history")), reverse=True)[:3]
    assert shown == [f"{at:%Y-%m-%d %H:%M:%S}" for at in newest]


def test_the_source_format_is_databricks_own() -> None:
    check_source_format(NOTEBOOK, more_cells_than=18)


def test_the_cluster_now(ran: Ran, short_run: ShortRun) -> None:
    found = {row["broker"]: row["bundles"] for row in ran.shown["Brokers"]}
    owned = [r.by.broker for r in short_run.state.bundles.values() if r.by is not None]
    assert found == {broker: owned.count(broker) for broker in ("b1:8080", "b2:8080", "b3:8080")}
    assert {row["state"] for row in ran.shown["On the way"]} == {"free", "transferring"}


def test_load_history_follows_the_load(ran: Ran) -> None:
    history = ran.rows("broker_history")
    assert {row["broker"] for row in history} == {"b1:8080", "b2:8080", "b3:8080"}
    assert max(row["utilisation_pct"] for row in history) > 80 > min(row["utilisation_pct"] for row in history)
    namespaces = ran.rows("namespace_history")
    assert {row["namespace"] for row in namespaces} == {"shop/orders", "shop/clicks"}
    first = next(row for row in namespaces if row["namespace"] == "shop/orders")
    assert first["messages_per_s"] == pytest.approx(8 * 2_000, rel=0.05)
    assert first["bundles_reported"] == 8
    check_plots(ran, 2)


def test_each_pane_of_a_run_of_minutes_is_a_moment(ran: Ran, short_run: ShortRun) -> None:
    panes = short_run.root.open("broker_load").to_pyarrow_table(columns=["as_of_ms"])["as_of_ms"].to_pylist()
    moments = {datetime.datetime.fromtimestamp(ms / 1_000, datetime.timezone.utc).replace(tzinfo=None) for ms in panes}
    for name in ("broker_history", "namespace_history"):
        assert {row["at_time"] for row in ran.rows(name)} == moments


def test_decisions_and_what_was_held_back(ran: Ran, short_run: ShortRun) -> None:
    decided = ran.shown["Decided"]
    executed = {row["decision_id"] for row in decided if row["outcome"] == "executed"}
    begun = {e.decision_id for e in short_run.entries if e.decision_id and "-" in e.decision_id}
    assert executed == {name for name in begun if not name.startswith(OF_STEP)}, "of rounds alone"
    assert executed < begun
    assert "301_shadow_mode" in {row["outcome"] for row in decided}
    moved = next(row for row in decided if row["decision_id"] == "1790000080000-0000")
    assert moved["source_before_pct"] == 82.4
    assert moved["source_predicted_pct"] < 60
    assert "200_hit_count" in {row["reason"] for row in ran.shown["Held back"]}


def test_hand_over_times(ran: Ran, short_run: ShortRun) -> None:
    found = {row["how"]: row for row in ran.shown["Handovers"]}
    assert set(found) == {"transfer", "unload", "failover", "first assignment"}
    ended = [e for e in short_run.entries if e.kind is Kind.OWNERSHIP and e.reason == "owner_ended"]
    assert found["failover"]["times"] == len(ended)
    assert all(row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"] for row in found.values())
    assert ran.shown["Orders"] == [], "the journal owns this cluster's bundles"


def test_quarantine_and_table_health(ran: Ran) -> None:
    assert sum(row["records"] for row in ran.shown["Quarantined"]) == 4
    health = ran.rows("table_health")
    assert [row["table"] for row in health] == list(TABLES)
    assert all(row["reader_version"] == 1 for row in health)
    assert all(row["version"] > 0 for row in health if row["table"] not in ("overrides", "usage_model"))


def test_widgets_narrow_the_view(spark: Any, short_run: ShortRun) -> None:
    narrow = run_notebook(NOTEBOOK, spark, tables=short_run.root.root, hours="0.005", namespace="shop/clicks")
    namespaces = [row["namespace"] for row in narrow.rows("namespace_history")]
    assert namespaces == ["shop/clicks", "shop/clicks"]  # 0.005 hours: the panes of the last 18 s
    clicks = [r for r in short_run.state.bundles.values() if r.by and r.bundle.namespace == "shop/clicks"]
    assert sum(row["bundles"] for row in narrow.shown["Brokers"]) == len(clicks)
    assert len(narrow.rows("broker_history")) <= 6
