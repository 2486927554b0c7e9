"""docs/coverage.md says what rows, markers and outcomes say, and no row can say done without a test that passed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.pages import coverage as coverage_page
from benchmarks.pages.coverage import DONE, FAILING, NOT_RUN, NOT_YET, OUT_OF_SCOPE, PAGE, Shown, newest, problems
from benchmarks.pages.coverage_markers import BadMarker, marked, merged, read_outcomes, write_outcomes
from benchmarks.pages.coverage_rows import BadRows, Coverage, parse
from tests.coverage_outcomes import ENVIRONMENT, Outcomes, register_if_asked

DOCUMENTS = {"guide": {"name": "the guide", "what": "a page"}}
ROW = {"id": "a-row", "documents": ["guide"], "kind": "knob", "says": "something", "default": "something | other"}
ONE, TWO = "tests/unit/test_x.py::test_one", "tests/unit/test_x.py::TestAll::test_two"


def rows(*changes: dict[str, Any]) -> Coverage:
    made = [{**ROW, **change} for change in changes or ({},)]
    return parse({"documents": DOCUMENTS, "sections": [{"title": "All", "rows": made}]})


class TestTheRealPage:
    def test_it_is_what_rows_markers_and_outcomes_say(self) -> None:
        assert coverage_page.main([]) == 0, "run `python -m benchmarks.pages.coverage --write`"

    def test_every_marker_names_a_row_that_may_have_one(self) -> None:
        assert problems(newest()) == []

    def test_every_row_has_a_test_or_says_that_it_has_none(self) -> None:
        now, lines = newest(), PAGE.read_text().splitlines()
        for row in now.coverage.rows:
            (line,) = [line for line in lines if line.startswith(f'| <a id="{row.id}"></a>')]
            status = line.split(" | ")[5]
            assert status in coverage_page.STATUSES
            if row.out_of_scope:
                assert (status, row.out_of_scope in line) == (OUT_OF_SCOPE, True)
            else:
                assert (status == NOT_YET) is not bool(now.tests_of(row)), row.id

    def test_done_means_that_a_test_has_passed_and_none_failed(self) -> None:
        now = newest()
        for row in now.coverage.rows:
            ended = [now.outcomes.get(test) for test in now.tests_of(row)]
            assert (now.status(row) == DONE) is ("passed" in ended and "failed" not in ended), row.id


class TestStatus:
    @pytest.mark.parametrize(
        ("outcomes", "status"),
        [
            ({}, NOT_RUN),
            ({ONE: "skipped"}, NOT_RUN),
            ({ONE: "passed"}, DONE),
            ({ONE: "failed"}, FAILING),
            ({ONE: "passed", TWO: "failed"}, FAILING),
            ({ONE: "passed", TWO: "skipped"}, DONE),
            ({"tests/unit/test_x.py::test_gone": "passed"}, NOT_RUN),
        ],
    )
    def test_a_row_stands_as_its_tests_ended(self, outcomes: dict[str, str], status: str) -> None:
        made = Shown(rows(), {ONE: ("a-row",), TWO: ("a-row",)}, outcomes)
        (row,) = made.coverage.rows
        assert made.status(row) == status
        page = coverage_page.tables(made)
        assert f"| {status} |" in page
        assert (f"| {DONE} |" in page) is (status == DONE)
        assert ("a-row" in coverage_page.still_open(made)) is (status != DONE)

    def test_a_row_without_a_test_is_not_yet_done_whatever_outcomes_say(self) -> None:
        made = Shown(rows({"missing": "nobody wrote it"}), {}, {ONE: "passed"})
        assert f"| {NOT_YET} | — |" in coverage_page.tables(made)
        assert "nobody wrote it" in coverage_page.still_open(made)

    def test_what_is_missing_is_told_only_while_it_is(self) -> None:
        made = Shown(rows({"missing": "nobody wrote it"}), {ONE: ("a-row",)}, {ONE: "passed"})
        assert "nobody wrote it" not in coverage_page.tables(made) + coverage_page.still_open(made)

    def test_tests_are_linked_and_those_that_did_not_pass_say_so(self) -> None:
        made = Shown(rows(), {ONE: ("a-row",), TWO: ("a-row",)}, {ONE: "passed"})
        page = coverage_page.tables(made)
        assert "[TestAll test_two](../tests/unit/test_x.py) (not run)<br>[test_one](../tests/unit/test_x.py) |" in page
        assert "something \\| other" in page, "a bar in a text does not end its cell"

    def test_totals_count_every_row_once(self) -> None:
        made = Shown(
            rows({}, {"id": "b", "kind": "feature", "default": "", "out_of_scope": "no"}),
            {ONE: ("a-row",)},
            {ONE: "passed"},
        )
        assert "| all | 1 | 0 | 0 | 0 | 1 |" in coverage_page.totals(made)

    def test_conflicts_are_listed_with_both_ways(self) -> None:
        made = Shown(rows({"conflict": "one says so, one not", "other": "a knob"}, {"id": "b"}), {}, {})
        listed = coverage_page.conflicts(made)
        assert "| one says so, one not | something \\| other | a knob |" in listed
        assert "`b`" not in listed

    def test_markers_of_no_row_or_of_what_is_out_of_scope_are_problems(self) -> None:
        coverage = rows({"default": "", "out_of_scope": "others do it"})
        found = problems(Shown(coverage, {ONE: ("a-row", "b-row")}, {}))
        assert len(found) == 2
        assert "'a-row', which is out of scope" in found[0]
        assert "'b-row', which is no row" in found[1]

    def test_a_part_that_nobody_makes_is_an_error(self) -> None:
        with pytest.raises(KeyError, match="speed"):
            coverage_page.rendered("<!-- generated: speed -->\n<!-- end -->\n", Shown(rows(), {}, {}))


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
        assert marked(text, "t.py") == {
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
            marked(text, "t.py")


class TestOutcomes:
    def test_the_worst_of_phases_and_parameters_counts(self, tmp_path: Path) -> None:
        writer = Outcomes(tmp_path / "outcomes.json")
        for test, ended in (("a[1]", "passed"), ("a[2]", "failed"), ("b[x[1]]", "skipped"), ("b[y]", "passed")):
            writer.pytest_runtest_logreport(_report(f"t.py::{test}", "setup", "passed"))
            writer.pytest_runtest_logreport(_report(f"t.py::{test}", "call", ended))
            writer.pytest_runtest_logreport(_report(f"t.py::{test}", "teardown", "passed"))
        writer.pytest_runtest_logreport(_report("t.py::c", "setup", "failed"))
        writer.pytest_runtest_logreport(_report("t.py::d", "setup", "skipped"))
        writer.pytest_runtest_logreport(_report("t.py::e", "call", "passed"))
        writer.pytest_runtest_logreport(_report("t.py::e", "teardown", "failed"))
        writer.pytest_runtest_logreport(_report("t.py::unmarked", "call", "passed", marked=False))
        assert writer.found == {
            "t.py::a": "failed", "t.py::b": "passed", "t.py::c": "failed", "t.py::d": "skipped", "t.py::e": "failed",
        }  # fmt: skip

    def test_a_report_from_another_test_process_still_says_that_it_is_marked(self, tmp_path: Path) -> None:
        place = ("t.py", 1, "test_a")
        report = pytest.TestReport("t.py::test_a", place, {"covers": 1, "test_a": 1}, "passed", None, "call")
        arrived = pytest.TestReport._from_json(report._to_json())  # as pytest-xdist sends it
        writer = Outcomes(tmp_path / "outcomes.json")
        writer.pytest_runtest_logreport(arrived)
        assert writer.found == {"t.py::test_a": "passed"}

    def test_a_run_replaces_its_own_keeps_what_it_left_out_and_forgets_what_is_unmarked(self, tmp_path: Path) -> None:
        before = {"kept": "passed", "run": "passed", "gone": "passed"}
        found = merged(before, {"run": "failed", "new": "passed"}, {"kept": 1, "run": 1, "new": 1})
        assert found == {"kept": "passed", "new": "passed", "run": "failed"}
        write_outcomes(found, tmp_path / "outcomes.json")
        assert read_outcomes(tmp_path / "outcomes.json") == found
        assert read_outcomes(tmp_path / "none.json") == {}

    @pytest.mark.parametrize(("asked", "worker", "writes"), [("1", False, 1), ("1", True, 0), ("", False, 0)])
    def test_only_a_run_that_was_asked_writes_and_of_several_processes_one(
        self, monkeypatch: pytest.MonkeyPatch, asked: str, worker: bool, writes: int
    ) -> None:
        monkeypatch.setenv(ENVIRONMENT, asked)
        registered: list[object] = []
        config = SimpleNamespace(pluginmanager=SimpleNamespace(register=lambda *given: registered.append(given)))
        if worker:
            config.workerinput = {}
        register_if_asked(config)  # type: ignore[arg-type]
        assert len(registered) == writes


def _report(test: str, when: str, ended: str, marked: bool = True) -> Any:
    keywords = {"covers": 1} if marked else {}
    return SimpleNamespace(nodeid=test, when=when, outcome=ended, passed=ended == "passed", keywords=keywords)
