"""docs/strategies.md says what the strategies do."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.measure.figures import RESULTS
from benchmarks.pages.strategies import main, render
from benchmarks.pages.strategy_field import losses


@pytest.mark.thorough
def test_the_page_is_what_the_strategies_do() -> None:
    assert main([]) == 0, "run `python -m benchmarks.pages.strategies --write`"


def test_a_part_that_nobody_makes_is_an_error() -> None:
    with pytest.raises(KeyError, match="speed"):
        render("<!-- generated: speed -->\n<!-- end -->\n")


def test_the_page_says_where_steady_loses_against_greedy() -> None:
    found = json.loads((RESULTS / "strategy_field.json").read_text())["figures"]["scenarios"]
    against_greedy = losses().split("- Than")[1]
    for line, key in zip(against_greedy.splitlines()[1:], ("mean", "moves", "overloaded_minutes"), strict=True):
        worse = {name for name, row in found.items() if row["steady"][key] > row["greedy"][key]}
        assert set(re.findall(r"(\w+) \([\d.]+ against", line)) == worse
        assert f"in {len(worse)} of {len(found)}" in line
