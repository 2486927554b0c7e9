"""docs/performance.md says what was measured, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.pages.performance import (
    PAGE,
    commit_in_store,
    handover_gaps,
    load_results,
    main,
    other_parts,
    render,
    report_times,
    spark_cost,
    spark_model,
    spark_writers,
)

RESULT = {
    "taken_at": "2026-01-02T03:04:05+00:00",
    "machine": {"threads": 2, "cpu": "some", "memory_gib": 24.0, "load_1m": 1.5},
    "figures": {
        "targets": [{"figure": "a.p99", "limit": 9.0, "unit": "s", "measured": 8.4, "reached": True}],
    },
}


def test_the_page_is_what_the_results_say() -> None:
    assert main([]) == 0, "run `python -m benchmarks.pages.performance --write`"
    assert render(PAGE.read_text(), load_results()) == PAGE.read_text()


def test_a_part_is_made_anew_and_the_text_around_it_stays() -> None:
    page = "before\n<!-- figures: targets -->\nold\n<!-- end -->\nafter\n"
    made = render(page, {"failover": RESULT})
    assert "| `failover` | a.p99 | 8.4 s | 9 s | kept |" in made
    assert "old" not in made
    assert made.startswith("before\n")
    assert made.endswith("after\n")


def test_a_part_that_nobody_makes_is_an_error() -> None:
    with pytest.raises(KeyError, match="speed"):
        render("<!-- figures: speed -->\n<!-- end -->\n", {})


def test_the_spark_tables_say_what_each_row_was_measured_on() -> None:
    def row(brokers: int, stats_per_s: int) -> dict[str, Any]:
        cost = {"executors_us_a_stat": 9.1, "driver_us_a_stat": 1.2, "shuffled_bytes_a_stat": 30.1}
        load = {"brokers": brokers, "listed": 100, "tail": 900, "writer": "spark", "stats_per_s": stats_per_s}
        batch = {"stats_a_batch": 101 * brokers, "executors_cpu_s_a_batch": 0.5, "driver_cpu_s_a_batch": 1e-4 * brokers}
        return load | cost | batch | {"memory_mib": {"executors": 1_200, "driver": 800}}

    results = {
        "cluster_scale": {
            "figures": {
                "cost": {"local": row(250, 1), "cluster": row(250, 2)},
                "workers": {"one": row(1_000, 3), "two": row(1_000, 4)},
                "workers_small": {"one": row(250, 5), "two": row(250, 6)},
                "growth": [row(10, 7), row(1_000, 8)],
            }
        }
    }
    lines = [line.split(" | ") for line in spark_cost(results).splitlines()[2:]]
    assert [(cells[0], cells[1], cells[4]) for cells in lines] == [
        ("| local mode", "250", "1"), ("| two workers of a core", "250", "2"),
        ("| one worker of half a core", "1,000", "3"), ("| two workers of half a core", "1,000", "4"),
        ("| one worker of half a core", "250", "5"), ("| two workers of half a core", "250", "6"),
        ("| two workers of a core", "10", "7"), ("| two workers of a core", "1,000", "8"),
    ]  # fmt: skip
    model = spark_model(results).splitlines()
    assert model[3] == "| 5,000 | 101,000 | 0.25 | 0.1 | 1,200 | 800 |"
    assert model[5].startswith("The measurements are off these lines by at most 0 CPU seconds a batch and 0 MiB (exec")
    assert spark_cost({}) == spark_model({}) == "Not measured yet.\n"


def test_writers_are_told_by_size_and_the_drivers_cost_beside_that_of_the_smallest_batch() -> None:
    def size(stats: int, driver_us: float) -> dict[str, Any]:
        cost = {"driver_us_a_stat": driver_us, "executors_us_a_stat": 5.5, "driver_cpu_s_a_batch": 1.234}
        memory = {"executors": 1_200, "driver": 800}
        return {"stats_a_batch": stats, "stats_per_s": 9_000, "memory_mib": memory, **cost}

    figures = {"spark": {"sizes": [size(250_000, 8.0), size(1_000_000, 6.0)]}, "delta_rs": {"sizes": [size(250, 3.0)]}}
    assert spark_writers({"cluster_writers": {"figures": figures}}).splitlines()[2:] == [
        "| delta_rs, a folder | 250 | 3 | 1.00 | 1.23 | 5.5 | 9,000 | 1,200 / 800 |",
        "| spark, a folder | 250,000 | 8 | 1.00 | 1.23 | 5.5 | 9,000 | 1,200 / 800 |",
        "| spark, a folder | 1,000,000 | 6 | 0.75 | 1.23 | 5.5 | 9,000 | 1,200 / 800 |",
    ]
    assert spark_writers({}).count("\n") == 2


def test_gaps_and_reports_are_told_by_run_and_only_of_those_measured() -> None:
    def times(p50: float, count: int = 9) -> dict[str, float]:
        return {"count": count, "p50": p50, "p99": p50 + 1, "max": p50 + 2}

    steps = {"transferring_to_releasing": times(30), "transferring_to_owned": times(40)}
    gaps = {"figures": {"tables_in_store": {"transfers": 7, "gap_ms": times(20.5), "steps_ms": steps}}}
    (line,) = handover_gaps({"handover": gaps}).splitlines()[2:]
    assert line.endswith("object store | 7 | 20.5 / 21.5 / 22.5 | 30 / 31 / 32 | 40 / 41 / 42 |")
    in_store = {"commit_ms": times(55.5), "requests_a_commit": 9.9, "server_busy_ms_a_commit": 40.1}
    commits = {"commit_in_store": {"figures": {"in_store": in_store, "in_folder": {"commit_ms": times(23)}}}}
    assert "55.5 ms there and 23 ms in a folder (p50)" in commit_in_store(commits)
    assert "makes 9.9 requests; meanwhile the server is at work for 40.1 ms" in commit_in_store(commits)
    found = {"latency_s": times(1), "rounds": {"due_to_journaled_s": times(2, 3), "computed_s": times(4, 3)}}
    load = {"brokers": 50, "bundles_a_broker": 100, "report_every_s": 5.0}
    reports = {"figures": {"load": load, "latency_s": times(5), "on_cluster": found}}
    memory = {"executors": 1_300, "driver": 4_200}
    all_listed = {"load": load | {"brokers": 900}, **found}
    busiest = load | {"brokers": 900, "listed_a_report": 20}
    large = {"figures": {"load": busiest, "memory_mib": memory, **found, "all_listed": all_listed}}
    assert report_times({"report_latency": reports, "report_scale": large}).splitlines()[2:] == [
        "| two workers of a core | 50 × 100, every 5 s | 9 | 1 / 2 / 3 | 3 | 2 / 3 / 4 | 4 / 5 / 6 | not measured |",
        "| two workers of a core | 900 × 100, 20 listed, every 5 s | 9 | 1 / 2 / 3 | 3 | 2 / 3 / 4 | 4 / 5 / 6"
        " | 1,300 / 4,200 |",
        "| two workers of a core | 900 × 100, every 5 s | 9 | 1 / 2 / 3 | 3 | 2 / 3 / 4 | 4 / 5 / 6 | not measured |",
    ]
    assert commit_in_store({}).endswith("not measured yet.\n")
    assert handover_gaps({}).count("\n") == report_times({}).count("\n") == 2


def test_the_rest_of_the_job_is_told_with_what_was_measured_of_it() -> None:
    query = {"load": {"brokers": 1_000, "bundles_a_broker": 100}, "latency_s": {"p50": 0.25, "p99": 0.8}}
    largest = {"brokers": 1_000, "bundles": 1_000_000, "cpu_p50_ms": 740.7, "cpu_worst_ms": 1_395.0, "peak_gib": 1.05}
    results = {"control_scale": {"figures": query}, "decide_speed": {"figures": {"largest": largest}}}
    assert other_parts(results).splitlines()[2:] == [
        "| control query | 1,000 | 100,000 | event to entry: 0.25 s, 0.8 s (p99) | not measured apart |",
        "| round worker, its decision | 1,000 | 1,000,000 | CPU of a round: 0.74 s, 1.40 s (the worst) | 1.05 GiB |",
    ]
    assert other_parts({}).count("\n") == 2
