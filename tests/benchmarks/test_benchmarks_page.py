"""docs/performance.md says what was measured, and nothing else."""

from __future__ import annotations

import pytest

from benchmarks.pages.performance import PAGE, load_results, main, render

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
