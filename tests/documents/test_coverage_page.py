"""docs/coverage.md says what rows and markers say, and no row is shown without a test."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.pages import coverage as coverage_page
from benchmarks.pages.coverage import NOT_YET, PAGE, STANDINGS, Shown, newest, problems
from benchmarks.pages.coverage_markers import BadMarker, scan_file
from benchmarks.pages.coverage_rows import BadRows, Coverage, parse

DOCUMENTS = {"guide": {"name": "the guide", "what": "a page"}}
ROW = {"id": "a-row", "documents": ["guide"], "kind": "knob", "says": "something", "default": "something | other"}
ONE, TWO = "tests/unit/test_x.py::test_one", "tests/unit/test_x.py::TestAll::test_two"


def rows(*changes: dict[str, Any]) -> Coverage:
    made = [{**ROW, **change} for change in changes or ({},)]
    return parse({"documents": DOCUMENTS, "sections": [{"title": "All", "rows": made}]})


class TestTheRealPage:
    def test_it_is_what_rows_and_markers_say(self) -> None:
        assert coverage_page.main([]) == 0, "run `python -m benchmarks.pages.coverage --write`"

    def test_every_marker_names_a_row_that_may_have_one(self) -> None:
        assert problems(newest()) == []

    def test_every_row_has_a_test_or_says_that_it_has_none(self) -> None:
        now, lines = newest(), PAGE.read_text().splitlines()
        for row in now.coverage.rows:
            (line,) = [line for line in lines if line.startswith(f'| <a id="{row.id}"></a>')]
            shown_by = line.split(" | ")[-1]
            assert now.standing(row) in STANDINGS
            if row.out_of_scope:
                assert row.out_of_scope in line
            else:
                assert (NOT_YET in shown_by) is not bool(now.tests_of(row)), row.id


class TestStanding:
    def test_a_row_without_a_test_is_not_yet_shown(self) -> None:
        made = Shown(rows({"missing": "nobody wrote it"}), {})
        assert f"| {NOT_YET} |" in coverage_page.tables(made)
        assert "nobody wrote it" in coverage_page.still_open(made)

    def test_what_is_missing_is_told_only_while_it_is(self) -> None:
        made = Shown(rows({"missing": "nobody wrote it"}), {ONE: ("a-row",)})
        assert "nobody wrote it" not in coverage_page.tables(made) + coverage_page.still_open(made)

    def test_tests_are_linked(self) -> None:
        made = Shown(rows(), {ONE: ("a-row",), TWO: ("a-row",)})
        page = coverage_page.tables(made)
        assert "[TestAll test_two](../tests/unit/test_x.py)<br>[test_one](../tests/unit/test_x.py) |" in page
        assert "something \\| other" in page, "a bar in a text does not end its cell"

    def test_totals_count_every_row_once(self) -> None:
        made = Shown(
            rows({}, {"id": "b", "kind": "feature", "default": "", "out_of_scope": "no"}),
            {ONE: ("a-row",)},
        )
        assert "| all | 1 | 0 | 1 |" in coverage_page.totals(made)

    def test_conflicts_are_listed_with_both_ways(self) -> None:
        made = Shown(rows({"conflict": "one says so, one not", "other": "a knob"}, {"id": "b"}), {})
        listed = coverage_page.conflicts(made)
        assert "| one says so, one not | something \\| other | a knob |" in listed
        assert "`b`" not in listed

    def test_markers_of_no_row_or_of_what_is_out_of_scope_are_problems(self) -> None:
        coverage = rows({"default": "", "out_of_scope": "others do it"})
        found = problems(Shown(coverage, {ONE: ("a-row", "b-row")}))
        assert len(found) == 2
        assert "'a-row', which is out of scope" in found[0]
        assert "'b-row', which is no row" in found[1]

    def test_a_part_that_nobody_makes_is_an_error(self) -> None:
        with pytest.raises(KeyError, match="speed"):
            coverage_page.render("<!-- generated: speed -->\n<!-- end -->\n", Shown(rows(), {}))


class TestRows:
    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"status": "done"}, "has status"),
            ({"id": "A row"}, "lower-case"),
            ({"documents": []}, "no document"),
            ({"documents": ["rumour"]}, "documents are guide"),
            ({"kind": "wish"}, "feature, knob, behaviour"),
            ({"says": " "}, "what is described"),
            ({"default": ""}, "either"),
            ({"out_of_scope": "others do it"}, "either"),
            ({"default": "", "out_of_scope": "others do it", "other": "a way"}, "no other way"),
        ],
    )
    def test_mistakes_name_the_row_and_what_would_be_right(self, change: dict[str, Any], complaint: str) -> None:
        with pytest.raises(BadRows, match=complaint):
            rows(change)

    def test_a_row_is_there_once(self) -> None:
        with pytest.raises(BadRows, match="twice"):
            rows({}, {})


class TestMarkers:
    def test_of_functions_classes_and_both(self) -> None:
        text = """
import pytest

@pytest.mark.covers("one", "two")
@pytest.mark.parametrize("x", [1, 2])
def test_a(x): ...

@pytest.mark.covers("three")
class TestB:
    def test_c(self): ...
    @pytest.mark.covers("one", "three")
    async def test_d(self): ...
    def helper(self): ...

def test_unmarked(): ...
"""
        assert scan_file(text, "t.py") == {
            "t.py::test_a": ("one", "two"),
            "t.py::TestB::test_c": ("three",),
            "t.py::TestB::test_d": ("three", "one"),
        }

    @pytest.mark.parametrize(
        "text",
        [
            "@pytest.mark.covers()\ndef test_a(): ...",
            "@pytest.mark.covers\ndef test_a(): ...",
            "@pytest.mark.covers(ROW)\ndef test_a(): ...",
            "@pytest.mark.covers(*['one'])\ndef test_a(): ...",
            "@pytest.mark.covers('one', why='so')\ndef test_a(): ...",
            "pytestmark = pytest.mark.covers('one')",
            "CASES = [pytest.param(1, marks=pytest.mark.covers('one'))]",
        ],
    )
    def test_what_could_be_overlooked_is_refused(self, text: str) -> None:
        with pytest.raises(BadMarker, match=r"t\.py"):
            scan_file(text, "t.py")
