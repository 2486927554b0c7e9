"""docs/strategies.md says what the strategies do."""

from __future__ import annotations

import pytest

from benchmarks.pages.strategies import main, render


def test_the_page_is_what_the_strategies_do() -> None:
    assert main([]) == 0, "run `python -m benchmarks.pages.strategies --write`"


def test_a_part_that_nobody_makes_is_an_error() -> None:
    with pytest.raises(KeyError, match="speed"):
        render("<!-- generated: speed -->\n<!-- end -->\n")
