"""The helper that every benchmark writes its figures with."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from benchmarks.measure.figures import machine, percentile, summary, write


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 2), (51, 3), (75, 3), (99, 4), (100, 4)])
def test_percentiles_are_nearest_rank(percent: float, expected: float) -> None:
    assert percentile([4, 2, 3, 1], percent) == expected


def test_no_values_is_an_error_not_a_zero() -> None:
    with pytest.raises(ValueError, match="did the benchmark measure anything"):
        percentile([], 50)


def test_a_summary_of_one_value() -> None:
    assert summary([2.0]) == {"count": 1, "max": 2.0, "min": 2.0, "p50": 2.0, "p90": 2.0, "p99": 2.0}


def test_figures_are_written_with_the_machine_but_not_its_name(tmp_path: Path) -> None:
    path = write("example", {"p50_ms": 1.5}, tmp_path / "results")
    document = json.loads(path.read_text())
    assert document["figures"] == {"p50_ms": 1.5}
    assert document["machine"]["threads"] >= 1
    assert document["machine"]["packages"]["numpy"]
    assert platform.node() not in machine().values()
    assert [p.name for p in path.parent.iterdir()] == ["example.json"]
