"""docs/reasons.md is made of the one table of reasons, and has all of them."""

from __future__ import annotations

from benchmarks.pages.reasons import PAGE, main, render
from controller.domain.decision import Reason


def test_the_page_is_made_of_the_table() -> None:
    assert main([]) == 0, "run `python -m benchmarks.pages.reasons --write`"


def test_the_page_has_every_reason() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [reason.value for reason in Reason if f"| `{reason.value}`" not in page] == []
    assert f"| `{Reason.BALANCED.value}`" not in render("<!-- generated: hard -->\n<!-- end -->\n")
