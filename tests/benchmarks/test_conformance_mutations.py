"""The conformance runner on cases made wrong in one place: a field nobody knows, an expectation that is not met."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.conformance.reading import Fields, first, known, unknown_fields
from benchmarks.conformance.runner import run_case

DATA = Path(__file__).parents[1] / "data"
CASES: list[dict[str, Any]] = [
    case for name in ("pulsar_cases", "pulsar_layouts") for case in json.loads((DATA / f"{name}.json").read_text())
]
JUNK = "levitation"
Place = tuple[str | int, ...]
# objects that have names of brokers, bundles and the like where others have fields; one more name is one more of them
_BY_NAME = re.compile(
    r"recently_unloaded(_brokers)?|available_brokers|split_boundaries|config\.domains|state|bundles\.topics"
    r"|policies\.\w+|(preassigned|planned|bundleBrokerMap)(Broker)?|brokers(\.[^.]+\.\w*)?|bundles"
    r"|steps\.\d+\.\w+",
    re.IGNORECASE,
)
_RECORDS = ("report-trigger", "split-boundary", "hash")  # whose brokers or bundles are one object with fields


def placed(case: dict[str, Any], place: Place) -> Any:
    value: Any = case
    for step in place:
        value = value[step]
    return value


def objects(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where there are objects, expectations apart."""
    if isinstance(value, dict):
        yield place
        for name, inner in value.items():
            if not re.match("expect", name):
                yield from objects(inner, (*place, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from objects(inner, (*place, at))


def has_fields(case: dict[str, Any], place: Place) -> bool:
    path = ".".join(map(str, place))
    if case["kind"] in _RECORDS and placed(case, place) and path in ("brokers", "bundles"):
        return True
    said = placed(case, place)
    return not _BY_NAME.fullmatch(path) or bool({"usage", "limit", "state"} & set(said) and path not in ("state",))


def kinds_of_places() -> Iterator[tuple[str, dict[str, Any], Place]]:
    """For every kind of case, one of each kind of place where its cases have an object with fields."""
    seen = set()
    for case in CASES:
        for place in objects(case):
            inner = ("*" if isinstance(step, int) or re.search(r"\d|[/:]", step) else step for step in place[1:])
            where = ".".join((*map(str, place[:1]), *inner))
            key = (case["kind"], case["strategy"], where)
            if key not in seen and has_fields(case, place):
                seen.add(key)
                yield f"{case['id']}-{case['kind']}-{case['strategy']}-{where}", case, place


PLACES = list(kinds_of_places())


@pytest.mark.parametrize(("case", "place"), [place[1:] for place in PLACES], ids=[place[0] for place in PLACES])
def test_a_field_that_nobody_knows_fails_the_case_and_is_named(case: dict[str, Any], place: Place) -> None:
    for value in (1, None, {}, {"x": 1}, [JUNK]):
        changed = copy.deepcopy(case)
        placed(changed, place)[JUNK] = value
        outcome, text = run_case(changed)
        assert outcome == "fail"
        assert JUNK in text, text


def test_every_kind_of_case_is_tried_at_its_top_in_its_config_in_its_rows_and_in_its_steps() -> None:
    tried = {(case["kind"], case["strategy"], place[0] if place else "") for _, case, place in PLACES}
    for case in CASES:
        kind = (case["kind"], case["strategy"])
        assert (*kind, "") in tried
        assert (*kind, "config") in tried
        if any(isinstance(step, dict) for step in case.get("steps") or ()):
            assert (*kind, "steps") in tried


def test_a_step_of_a_placement_invents_no_broker_by_a_field_that_it_has_not() -> None:
    case = next(case for case in CASES if case["id"] == "120")
    changed = copy.deepcopy(case)
    changed["steps"][0]["levitating"] = {"new-broker": 0}
    outcome, text = run_case(changed)
    assert outcome == "fail"
    assert "field steps[0].levitating.new-broker is not known to kind 'place'" in text


def test_the_config_of_a_step_is_pulsars_and_holds_for_that_step() -> None:
    case = next(case for case in CASES if case["id"] == "120")
    knob = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    strict = copy.deepcopy(case)
    strict["steps"][0]["config"] = {knob: 100}  # nobody is so far below the mean: anybody may be taken
    assert run_case(strict)[0] == "fail"
    strict["steps"][0]["config"] = {knob: case["config"][knob]}
    assert run_case(strict)[0] == "pass"
    strict["steps"][0]["config"] = {"loadBalancerLevitation": 1}
    outcome, text = run_case(strict)
    assert outcome == "fail"
    assert "steps[0].config.loadBalancerLevitation" in text


def wrong(value: Any) -> Iterator[Any]:
    """The value, wrong in one place: every place in turn."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str) or value is None:
        yield JUNK
    elif isinstance(value, list):
        yield [*value, JUNK]
        for at, inner in enumerate(value):
            yield from ([*value[:at], one, *value[at + 1 :]] for one in wrong(inner))
    elif isinstance(value, dict):
        yield {**value, JUNK: 1}
        yield {**value, JUNK: 0}  # also where what was not counted is 0
        for name, inner in value.items():
            yield from ({**value, name: one} for one in wrong(inner))


def several_are_right(name: str, value: Any) -> bool:
    """Prose about a property, and results of which a case lists more than one: one more listed is no mistake."""
    return name in ("property", "tolerance") or name.endswith("_in") or "any" in str(value)[:5]


def survivors(case: dict[str, Any], name: str, value: Any, put: Callable[[dict[str, Any], Any], None]) -> list[Any]:
    found = []
    for other in [JUNK, [JUNK], {JUNK: 1}] if several_are_right(name, value) else wrong(value):
        changed = copy.deepcopy(case)
        put(changed, other)
        found += [(case["id"], name, other)] if run_case(changed)[0] == "pass" else []
    return found


def test_no_case_passes_with_an_expectation_that_is_wrong_anywhere() -> None:
    found: list[Any] = []
    for case in CASES:
        for name, value in case["expected"].items():
            if name in ("property", "tolerance"):  # prose and comments
                continue

            def put(changed: dict[str, Any], other: Any, name: str = name) -> None:
                changed["expected"][name] = other

            found += survivors(case, name, value, put)
    assert found == []


def test_what_a_step_expects_is_compared_in_every_kind() -> None:
    found: list[Any] = []
    for case in CASES:
        for at, step in enumerate(case.get("steps") or ()):
            for name in [name for name in step if re.match("expect|tombstone", name)] if isinstance(step, dict) else ():

                def put(changed: dict[str, Any], other: Any, at: int = at, name: str = name) -> None:
                    changed["steps"][at][name] = other

                found += survivors(case, name, step[name], put)
    assert found == []


@pytest.mark.parametrize("case", {(c["kind"], c["strategy"]): c for c in CASES}.values(), ids=lambda case: case["id"])
def test_an_expectation_that_there_is_nothing_to_compare_with_fails(case: dict[str, Any]) -> None:
    assert run_case({**case, "expected": {**case["expected"], JUNK: 1}})[0] == "fail"
    steps = [{**step, "expect_levitation": "x"} if isinstance(step, dict) else step for step in case.get("steps") or ()]
    more = steps if steps != (case.get("steps") or []) else [*steps, {"expect": 1}]
    assert run_case({**case, "steps": more})[0] == "fail"


@pytest.mark.parametrize("case", {(c["kind"], c["strategy"]): c for c in CASES}.values(), ids=lambda case: case["id"])
def test_a_knob_of_pulsar_may_stand_in_every_case_and_its_value_is_checked(case: dict[str, Any]) -> None:
    for value, outcome in ((7, "pass"), ("seven", "fail")):
        config = {**(case["config"] or {}), "loadBalancerBrokerComfortLoadLevelPercentage": value}
        assert run_case({**case, "config": config})[0] == outcome


def test_documentation_may_be_anywhere_in_a_case_and_in_its_steps() -> None:
    case = next(case for case in CASES if case["id"] == "153")
    said = {"notes": "n", "source_test": "s", "provenance": "p"}
    steps = [{**step, **said} for step in case["steps"]]
    assert run_case({**case, **said, "steps": steps})[0] == "pass"


def test_what_was_read_of_an_object() -> None:
    case = Fields({"kind": "k", "a": {"b": 1, "c": {"d": 2}}, "e": [{"f": 3}, 4], "config": {}, "g": None})
    assert unknown_fields(case) == ["a.b", "a.c", "e", "g"]
    assert "g" in case
    assert list(case["a"]) == ["b", "c"]  # names are not values
    assert unknown_fields(case) == ["a.b", "a.c.d", "e", "g"]
    assert case["a"] == {"b": 1, "c": {"d": 2}}
    assert case["e"][1] == 4
    assert unknown_fields(case) == ["e[0].f", "g"]
    assert case["e"][0].get("f") == 3
    assert known(case, "g", "h") == {}
    assert unknown_fields(case) == []


def test_of_two_names_of_the_same_thing_the_second_stays_unread() -> None:
    row = Fields({"a": None, "b": 1, "c": 2})
    assert first(row, "a", "b", "c") == 1
    assert row.unread() == ["c"]
    assert first(row, "x", default=7) == 7


@pytest.mark.parametrize(
    ("case_id", "name", "value", "told"),
    [
        ("138", "property", "all further bundles go to the broker that got the first bundle", "not understood"),
        ("138", "property", "48 further bundles never go to the broker that got the first bundle", "further is 49"),
        ("083", "property", "nonsense", "not understood"),
        ("084", "property", "nonsense", "not understood"),
        ("108", "property", "every segment has msgRate < 1", "rate is"),
        ("108", "property", "every segment has msgRate > 1", "not understood"),
        ("h093", "selected", "any of 9, 8", "drawn from"),
        ("h093", "selected", "any of 1, 2", "drawn from"),
        ("h093", "selected", "any of the brightest stars", "not understood"),
        ("079", "destBroker", "any one of the 98 equally loaded brokers", "expected"),
        ("h102", "selected", "any, remembered", "expected"),
        ("013", "reference_result", {"broker-2": ["bundle-1"]}, "reference_result: expected"),
    ],
)
def test_prose_is_compared_by_what_it_says_or_is_not_understood(
    case_id: str, name: str, value: object, told: str
) -> None:
    case = next(case for case in CASES if case["id"] == case_id)
    outcome, text = run_case({**case, "expected": {**case["expected"], name: value}})
    assert outcome == "fail"
    assert told in text
