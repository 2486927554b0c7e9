"""Cases that the conformance runner refuses: a strategy or a value that the kind cannot have, and what is missing."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.conformance.runner import run_case
from tests.benchmarks.test_conformance_mutations import CASES, JUNK, placed


def shapes() -> Iterator[tuple[str, object]]:
    """Fields that every case may have, with values that they cannot have."""
    for name in ("config", "brokers", "bundles", "policies", "state", "split_boundaries", "available_brokers"):
        yield from ((name, value) for value in ("x", [1], 7, True))
    for name in ("recently_unloaded", "recently_unloaded_brokers", "steps"):
        yield from ((name, value) for value in ("x", [1], 7, True, {"zz": 1}))
    yield from (("namespace_bundle_count", value) for value in ("x", [1], True, {"zz": "x"}))
    yield "split_boundaries", {"zz": 1}


@pytest.mark.parametrize(("name", "value"), list(shapes()))
def test_a_field_of_another_shape_fails_every_case_and_is_named(name: str, value: object) -> None:
    listed = [case for case in CASES if not (case["strategy"] == "LoadStats" and name == "brokers" and value == [1])]
    answers = [run_case({**case, name: value}) for case in listed]
    assert [text for outcome, text in answers if outcome != "fail" or f"field {name} " not in text] == []


ONE_EACH = list({(c["kind"], c["strategy"]): c for c in CASES}.values())


@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case["id"])
def test_a_strategy_that_the_kind_has_not_fails_the_case_and_is_named(case: dict[str, Any]) -> None:
    for strategy in (JUNK, None, 7):
        outcome, text = run_case({**case, "strategy": strategy})
        assert outcome == "fail"
        assert str(strategy) in text, text
    assert run_case({name: value for name, value in case.items() if name != "strategy"})[0] == "fail"


@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case["id"])
def test_a_kind_that_nobody_knows_fails_whatever_the_strategy(case: dict[str, Any]) -> None:
    assert f"no adapter for kind '{JUNK}'" in run_case({**case, "kind": JUNK})[1]


def test_a_strategy_is_refused_with_those_of_its_kind() -> None:
    case = next(case for case in CASES if case["kind"] == "hash")
    text = run_case({**case, "strategy": "TransferShedder"})[1]
    assert "strategy 'TransferShedder' (field strategy of this kind is ConsistentHashingTopicBundleAssigner)" in text


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("place-state", "steps"),
        ("shed-transfer", "config.loadBalancerBrokerLoadTargetStd"),
        ("shed-transfer", "brokers.broker1:8080.topBundles[0].msgThroughputOut"),
        ("shed", "bundles.bundle-1.msgThroughputIn"),
        ("report-trigger", "brokers.current.msgRateIn"),
        ("state-conflict", "from.state"),
        ("hash", "bundles.topic"),
        ("filter", "steps[0].candidates"),
    ],
)
def test_null_where_a_value_is_wanted_fails_the_case_and_is_named(kind: str, path: str) -> None:
    tried = 0
    for case in [case for case in CASES if case["kind"] == kind]:
        changed = copy.deepcopy(case)
        *way, last = (int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", path))
        try:
            inner = placed(changed, tuple(way))
            inner[last]
        except (KeyError, IndexError, TypeError):
            continue
        inner[last] = None
        outcome, text = run_case(changed)
        assert outcome == "fail"
        assert f"field {path} is null" in text
        tried += 1
    assert tried


def test_a_value_that_cannot_be_used_and_a_field_that_is_missing_are_named() -> None:
    case = next(case for case in CASES if case["id"] == "h303")
    text = run_case({**case, "bundles": {"topics": {"a": 7}}})[1]
    assert "field bundles.topics.a, which is 7, cannot be used here" in text
    text = run_case({**case, "bundles": {"topics": {"a": {"msgRateIn": {"x": 1}}}}})[1]
    assert "field bundles.topics.a.msgRateIn, which is {'x': 1}, cannot be used here" in text
    case = next(case for case in CASES if case["kind"] == "state-transition")
    text = run_case({name: value for name, value in case.items() if name != "from"})[1]
    assert "field from, which is missing, cannot be used here" in text
