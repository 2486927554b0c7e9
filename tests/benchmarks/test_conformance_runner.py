"""The conformance runner: what it shows to adapters, what it compares, and that it cannot pass by itself."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.conformance import runner as conformance
from benchmarks.conformance.compare import differences, equal, step_differences
from benchmarks.conformance.values import BadCase, NotApplicable, Pick, Sentence, Series
from controller.domain.errors import ConfigError

FILE = Path(__file__).parents[1] / "data" / "pulsar_cases.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text())
SIMPLE = next(case for case in CASES if case["kind"] == "state-transition")


def written(folder: Path, cases: list[dict[str, Any]]) -> str:
    path = folder / "cases.json"
    path.write_text(json.dumps(cases))
    return str(path)


def last_line(text: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(text.strip().splitlines()[-1])
    return found


@pytest.mark.covers("manager-modular", "manager-extensible")
def test_every_case_of_the_file_passes_or_says_why_it_cannot_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([str(FILE)]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    summary = json.loads(lines[-1])
    assert summary["fail"] == 0
    assert sum(summary.values()) == len(CASES) == len(lines) - 1
    assert summary["not_applicable"] <= 0.05 * len(CASES)
    assert all(line.startswith(("pass ", "n/a  ")) for line in lines[:-1])


def test_a_wrong_expectation_fails_with_the_difference_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = copy.deepcopy(SIMPLE)
    wrong["expected"]["allowed"] = ["Nowhere"]
    assert conformance.main([written(tmp_path, [SIMPLE, wrong])]) == 1
    text = capsys.readouterr().out
    assert last_line(text) == {"pass": 1, "fail": 1, "not_applicable": 0}
    assert "expected ['Nowhere'], got" in text


def test_an_unknown_kind_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main([written(tmp_path, [{**SIMPLE, "kind": "levitation"}])]) == 1
    text = capsys.readouterr().out
    assert last_line(text) == {"pass": 0, "fail": 1, "not_applicable": 0}
    assert "no adapter for kind 'levitation'" in text


def test_an_unknown_knob_is_a_failure_that_names_it() -> None:
    case = next(case for case in CASES if case["kind"] == "shed-transfer")
    outcome, text = conformance.run_case({**case, "config": {"loadBalancerLevitation": 1}})
    assert outcome == "fail"
    assert "loadBalancerLevitation" in text


@pytest.mark.parametrize("expected", [None, {}, [], {"notes": "nothing to compare"}])
def test_a_case_without_an_expectation_fails(expected: object) -> None:
    assert conformance.run_case({**SIMPLE, "expected": expected})[0] == "fail"


@pytest.mark.parametrize(
    ("content", "arguments"), [("{", 1), ('{"cases": 3}', 1), ("[3]", 1), ("[]", 0), ("[]", 2)]
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_exit_code_2(tmp_path: Path, content: str, arguments: int) -> None:
    path = tmp_path / "cases.json"
    path.write_text(content)
    assert conformance.main([str(path)] * arguments) == 2


def test_a_file_without_cases_says_so_and_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, content in enumerate(("[]", '{"cases": []}')):
        path = tmp_path / f"none{number}.json"
        path.write_text(content)
        assert conformance.main([str(path)]) == 2
        assert capsys.readouterr().err == f"cannot read the cases in {path}: there are no cases in it\n"


def test_help_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["--help"]) == 0
    assert "python -m benchmarks.conformance FILE" in capsys.readouterr().out


def test_a_missing_file_is_exit_code_2(tmp_path: Path) -> None:
    assert conformance.main([str(tmp_path / "none.json")]) == 2


def test_an_adapter_sees_neither_expectations_nor_where_a_case_comes_from() -> None:
    seen: list[Mapping[str, Any]] = []

    def adapter(case: Mapping[str, Any]) -> Mapping[str, Any]:
        seen.append(case)
        done = {"expect": 2, "expect_push": True, "tombstone": False}
        return {"answer": 1, "steps": [done for step in case["steps"] if step["do"] == 1]}

    case = {"id": "7", "source_test": "x", "provenance": "y", "kind": "k", "expected": {"answer": 1}, "notes": "input"}
    case["steps"] = [{"do": 1, "expect": 2, "expect_push": True, "tombstone": False, "why": "so"}]
    assert conformance.run_case(case, {"k": adapter})[0] == "pass"
    nothing = {"config": {}, "brokers": {}, "bundles": {}}
    assert seen == [{"kind": "k", "notes": "input", "steps": [{"do": 1}], **nothing}]
    assert case["expected"] == {"answer": 1}  # the case itself is left as it was


def test_what_steps_expect_is_compared_with_what_the_adapter_tells_of_the_steps() -> None:
    withheld = [{"expect_push": True}, {}, {"expect_push": False}]
    right = {"steps": [{"expect_push": True}, {"expect_push": True}, {"expect_push": False}]}
    assert step_differences(withheld, right) == []
    assert len(step_differences(withheld, {"steps": [{"expect_push": True}, {}, {"expect_push": True}]})) == 1
    assert len(step_differences(withheld, {"steps": []})) == 2
    assert len(step_differences(withheld, {"pushes": 1})) == 2  # nothing to compare with is no agreement


@pytest.mark.parametrize("error", [ConfigError("bad"), BadCase("bad"), KeyError("bad"), ZeroDivisionError("bad")])
def test_whatever_an_adapter_raises_is_a_failure(error: Exception) -> None:
    def adapter(case: Mapping[str, Any]) -> Mapping[str, Any]:
        raise error

    outcome, text = conformance.run_case({"kind": "k", "expected": {"a": 1}}, {"k": adapter})
    assert outcome == "fail"
    assert "bad" in text


def test_too_many_cases_that_are_not_applicable_are_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def adapter(case: Mapping[str, Any]) -> Mapping[str, Any]:
        if case["live"]:
            raise NotApplicable("needs a live ZooKeeper")
        return {"a": 1}

    monkeypatch.setattr(conformance, "_all_adapters", lambda: {"k": adapter})
    cases = [{"kind": "k", "live": at < 2, "expected": {"a": 1}} for at in range(20)]
    assert conformance.main([written(tmp_path, cases)]) == 1
    assert last_line(capsys.readouterr().out) == {"pass": 18, "fail": 0, "not_applicable": 2}
    assert conformance.main([written(tmp_path, cases[1:] + cases[2:])]) == 0
    assert "n/a  ? k : : needs a live ZooKeeper" in capsys.readouterr().out


def test_an_adapter_is_found_by_kind_and_strategy_or_by_kind() -> None:
    def adapter(case: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    adapters = {("k", "s"): adapter, "l": adapter}
    assert conformance.find_adapter({"kind": "k", "strategy": "s"}, adapters) is adapter
    assert conformance.find_adapter({"kind": "l", "strategy": "t"}, adapters) is adapter
    assert conformance.find_adapter({"kind": "k", "strategy": "t"}, adapters) is None
    assert conformance.find_adapter({"kind": "x", "strategy": "s"}, adapters) is None


@pytest.mark.parametrize(
    ("expected", "seen", "same"),
    [
        (1, 1.0, True),
        (0.364, 0.364 + 1e-9, True),
        (0.364, 0.365, False),
        (2**32, 2**32 + 1, False),  # hashes have no tolerance
        (1, True, False),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        ([1, 2], (1, 2), True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ("x", "x", True),
        ("x", None, False),
        ([1, 2], Series((1, 2, 3)), True),
        ([1, 2, 3, 4], Series((1, 2, 3)), False),
        ([], Series((1,)), False),
        (3, Series((1, 2, 3)), True),
        ("b", Pick("b", ("b",)), True),
        ("b", Pick("b", ("a", "b")), False),  # right by luck alone
        ("b", Pick("b", ("a", "b"), drawn=False), True),
        (["a", "b"], Pick("b", ("a", "b")), True),
        (["a"], Pick("b", ("a", "b")), False),
        ("a or b", Pick("b", ("a", "b")), True),
        ("any of them", Pick("b", ("a", "b")), True),
        ("any one of the 2 equals", Pick("b", ("a", "b")), True),
        ("any one of the 3 equals", Pick("b", ("a", "b")), False),
        ("any of them", Pick(None, ()), False),
        (None, Pick(None, ()), True),
    ],
)
def test_what_counts_as_equal(expected: object, seen: object, same: bool) -> None:
    assert equal(expected, seen) is same


def test_names_and_sets_and_counters_of_a_case() -> None:
    seen = {
        "owner": "b",
        "decisions": [{"bundle": "2", "x": 1}, {"bundle": "1", "x": 1}],
        "counter": {"Skip": {"A": 1, "B": 0}},
    }
    assert differences({"owner_in": ["a", "b"]}, seen) == []
    assert len(differences({"owner_in": ["a"]}, seen)) == 1
    assert differences({"decisions": [{"bundle": "1"}, {"bundle": "2"}]}, seen) == []
    assert len(differences({"decisions": [{"bundle": "1"}]}, seen)) == 1
    assert differences({"counter": {"Skip": {"B": 0}}}, seen) == []
    assert len(differences({"counter": {"Skip": {"C": 0}}}, seen)) == 1
    assert len(differences({"counter": {"Failure": {"Unknown": 0}}}, seen)) == 1
    assert len(differences({"counter": {"Skip": {"A": 2}}}, seen)) == 1
    assert len(differences({"nobody": 1}, seen)) == 1
    told = Sentence(r"in prose(?: below (?P<std>[\d.]+))?", True, {"std": 0.5})
    assert differences({"property": "In  prose"}, {"property": told}) == []
    assert differences({"property": "in prose below 0.6"}, {"property": told}) == []
    assert len(differences({"property": "in prose below 0.4"}, {"property": told})) == 1
    assert len(differences({"property": "in verse"}, {"property": told})) == 1
    assert len(differences({"property": "in prose"}, {"property": replace(told, holds="it does not hold")})) == 1
    assert len(differences({"property": "in prose"}, {"property": True})) == 1
    assert len(differences({"property": 1}, {"property": told})) == 1
    assert len(differences({"owner": "b", "tolerance": 5}, seen)) == 1


def mutations(value: Any) -> Iterator[Any]:
    """The value, wrong in one place."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield value + "x"
    elif value is None:
        yield "x"
    elif isinstance(value, list):
        yield [*value, "x"]
        for one in mutations(value[0]) if value else ():
            yield [one, *value[1:]]
    elif isinstance(value, dict):
        first = next(iter(value), None)
        if first is None:
            yield {"x": 1}
        else:
            for one in mutations(value[first]):
                yield {**value, first: one}


def test_no_case_passes_with_a_wrong_expectation() -> None:
    """What a case states in prose, or with several right answers, cannot be made wrong by changing a letter."""
    survived = []
    for case in CASES:
        for name, value in case["expected"].items():
            prose = isinstance(value, str) and value.startswith("any")
            prose = prose or (isinstance(value, list) and str(value[:1]).startswith("['any"))
            if name in ("property", "tolerance") or name.endswith("_in") or prose:
                continue
            for wrong in mutations(value):
                changed = {**case, "expected": {**case["expected"], name: wrong}}
                if conformance.run_case(changed)[0] == "pass":
                    survived.append((case["id"], name, wrong))
    assert survived == []
