"""The backlog of a fleet is what a real one sends, the model is the line through what was measured, and of writers the
one is measured that is named."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.measure.loads.backlog import NAME, TEMPLATES, Backlog, templates
from benchmarks.measure.loads.cluster_scale import mean_of
from benchmarks.measure.loads.cluster_writers import CASES, Case, figures_of
from benchmarks.measure.loads.fleet import stamp
from benchmarks.measure.loads.scale_model import SHARES, fit, of_one_shape
from benchmarks.measure.result import NotMeasured
from controller.domain.load import BUNDLE_FIELDS
from controller.ledger.tables import TableRoot
from controller.loads.judge import judge
from controller.loads.rules import ReportLimits
from controller.loads.settings import LoadsSettings
from jobs.loads_batch import LoadsBatch, Overview

LISTED, TAIL, SENT_MS = 7, 900, 1_790_000_000_000


@pytest.mark.parametrize("tail", [0, TAIL])
def test_a_template_becomes_a_report_that_the_query_takes(tail: int) -> None:
    made = templates(Backlog(brokers=3, listed=LISTED, tail=tail, rounds=1))
    assert len({template.body for template in made}) == TEMPLATES
    for template in made:
        value = stamp(template.body.replace(NAME.encode(), b"b00042"), 1, SENT_MS)
        report = json.loads(value)
        assert report["broker"] == "b00042:8080"
        assert all(bundle["bundle"].startswith("t/b00042/") for bundle in report["bundles"])
        rows = [*report["bundles"], *([report["tail"]] if tail else [])]
        for field in BUNDLE_FIELDS:
            assert sum(row[field] for row in rows) == pytest.approx(report["totals"][field])
            assert template.totals[field] == report["totals"][field]
        assert report["totals"]["bundles"] == LISTED + tail
        verdict = judge(value, len(value), b"b00042:8080", SENT_MS, ReportLimits.of(LoadsSettings))
        assert verdict.rule is None, verdict


def row(brokers: int, cpu: float, each_us: float, mib: float, each_bytes: float) -> dict[str, Any]:
    stats = brokers * 101
    found: dict[str, Any] = {"brokers": brokers, "stats_a_batch": stats, "memory_mib": {}}
    for part in SHARES:
        found[f"{part}_cpu_s_a_batch"] = cpu + each_us * stats / 1e6
        found["memory_mib"][part] = mib + each_bytes * stats / 2**20
    return found


def test_what_grows_in_a_line_is_predicted_on_it() -> None:
    model = fit([row(brokers, 0.5, 10.0, 800.0, 1_048.576) for brokers in (10, 100, 1_000)])
    for part in SHARES:
        assert model["lines"][part]["cpu_us_a_stat"] == pytest.approx(10.0)
        assert model["lines"][part]["memory_mib"] == 800
    large = model["predicted"][1]
    assert large["brokers"] == 5_000
    assert large["stats_per_s"] == 5_000 * 101 / 5
    assert large["executors_cores"] == pytest.approx((0.5 + 10e-6 * 5_000 * 101 * 2 / 5) / 2, abs=0.01)
    assert large["executors_mib"] == round(800 + 1_048.576 * 5_000 * 101 * 2 / 5 / 2**20)


def test_every_measurement_of_one_shape_moves_the_line_and_its_distance_is_told() -> None:
    rows = [row(brokers, 0.5, 10.0, 800.0, 0.0) for brokers in (10, 20, 30)]
    rows[1]["memory_mib"]["driver"] += 30
    line = fit(rows)["lines"]["driver"]
    assert (line["memory_mib"], line["memory_bytes_a_stat"], line["memory_mib_missed"]) == (810, 0.0, 20)
    shapes = [each | {"listed": listed, "tail": 0} for each, listed in zip(rows, (100, 100, 1_000), strict=True)]
    assert of_one_shape(shapes) == shapes[:2]


def test_runs_are_averaged_figure_by_figure() -> None:
    runs = [
        {"master": "spark", "workers": 2, "stats_per_s": 100, "us_a_stat": 4.5, "memory_mib": {"driver": 10}},
        {"master": "spark", "workers": 2, "stats_per_s": 201, "us_a_stat": 5.0, "memory_mib": {"driver": 20}},
    ]
    assert mean_of(runs) == {
        "master": "spark", "workers": 2, "stats_per_s": 150, "us_a_stat": 4.75, "memory_mib": {"driver": 15},
    }  # fmt: skip


def measured(writer: str, brokers: int, driver_us: float) -> dict[str, Any]:
    return {"writer": writer, "brokers": brokers, "driver_us_a_stat": driver_us, "executors_us_a_stat": 2 * driver_us}


@pytest.mark.parametrize(("name", "case"), CASES.items())
def test_the_threshold_alone_makes_the_writer_that_is_to_be_measured(name: str, case: Case) -> None:
    for brokers in case.brokers:
        plan = case.plan(brokers, "127.0.0.1:9092", ("spark://127.0.0.1:1", (7, 8)), "http://127.0.0.1:2")
        settings = LoadsSettings(writer_threshold_rows=plan.threshold, storage_options=plan.storage_options)
        rows = brokers * plan.backlog.rows_a_report
        overview = Overview(
            brokers=pa.table({"broker": range(brokers)}), bundles=[], sent_after=0, bundle_rows=rows, bad=None
        )
        batch = LoadsBatch(settings, TableRoot("nowhere"), lambda: 0)
        assert batch._driver_writes(overview) == (case.writer == "delta_rs")
        assert plan.tables.startswith("s3://") == bool(plan.storage_options) == name.endswith("_in_store")
        assert plan.tasks_store_files == name.startswith("tasks")


def test_another_writer_than_the_one_to_be_measured_is_no_measurement() -> None:
    sizes = [measured("spark", brokers, cost) for brokers, cost in ((250, 8.0), (1_000, 6.0), (2_000, 7.0))]
    found = figures_of("spark", sizes)
    assert found["sizes"] == sizes
    assert (found["driver_us_large_to_small"], found["executors_us_large_to_small"]) == (0.75, 0.75)
    with pytest.raises(NotMeasured, match="delta_rs has written in place of spark"):
        figures_of("spark", [*sizes, measured("delta_rs", 4, 1.0)])
