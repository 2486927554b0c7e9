"""The conformance runner on cases worked out by hand: every kind, in the layouts in which case files write it down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.conformance import runner as conformance

FILE = Path(__file__).parents[1] / "data" / "pulsar_layouts.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['strategy']}")
def test_the_layout_is_understood(case: dict[str, Any]) -> None:
    outcome, text = conformance.run_case(case)
    assert outcome == "pass", text


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("split_count", 77),
        ("per_step", ["nobody"]),
        ("loadStd", 0.7),
        ("weightedMaxEMA", 0.7),
        ("unload", {"b": ["q"]}),
    ],
)
def test_a_wrong_expectation_fails_in_every_layout(name: str, wrong: object) -> None:
    stated = [case for case in CASES if name in case["expected"]]
    passed = [case["id"] for case in stated if conformance.run_case({**case, "expected": {name: wrong}})[0] == "pass"]
    assert stated
    assert passed == []


@pytest.mark.parametrize("name", ["config", "brokers", "bundles", "recently_unloaded"])
def test_what_is_empty_may_be_left_out_or_be_null(name: str) -> None:
    published = json.loads(FILE.with_name("pulsar_cases.json").read_text())
    empty = [case for case in published if not case.get(name)]
    left_out = [{key: value for key, value in case.items() if key != name} for case in empty]
    assert empty
    assert [text for case in left_out for outcome, text in [conformance.run_case(case)] if outcome != "pass"] == []
    null = [{**case, name: None} for case in empty]
    assert [text for case in null for outcome, text in [conformance.run_case(case)] if outcome != "pass"] == []
