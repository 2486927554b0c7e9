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
    render,
    report_times,
    spark_cost,
    spark_model,
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
        return load | cost | {"memory_mib": {"executors": 1_200, "driver": 800}}

    predicted = {"brokers": 5_000, "stats_per_s": 1_000_000, "executors_cores": 9.5, "driver_cores": 0.2,
                 "executors_mib": 4_000, "driver_mib": 900}  # fmt: skip
    results = {
        "cluster_scale": {
            "figures": {
                "cost": {"local": row(250, 1), "cluster": row(250, 2)},
                "workers": {"one": row(1_000, 3), "two": row(1_000, 4)},
                "workers_small": {"one": row(250, 5), "two": row(250, 6)},
                "growth": [row(10, 7), row(1_000, 8)],
                "model": {"predicted": [predicted]},
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
    assert spark_model(results).splitlines()[2] == "| 5,000 | 1,000,000 | 9.5 | 0.2 | 4,000 | 900 |"
    assert spark_cost({}) == spark_model({}) == "Not measured yet.\n"


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
    reports = {"figures": {"latency_s": times(5), "on_cluster": found}}
    (line,) = report_times({"report_latency": reports}).splitlines()[2:]
    assert line == "| two workers of a core | 9 | 1 / 2 / 3 | 3 | 2 / 3 / 4 | 4 / 5 / 6 |"
    assert commit_in_store({}).endswith("not measured yet.\n")
    assert handover_gaps({}).count("\n") == report_times({}).count("\n") == 2
