"""Compare the expectations of a case with the results of its adapter. Only this module sees both.

A case states some of the results: every name that it expects must be among them, and others may be too. Within a value
everything counts: a mapping must have the same keys, a list the same length and order (except decisions, which are a
set in Pulsar). Numbers may differ by TOLERANCE, or by the case's own `tolerance`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.conformance.values import Either, Pick, Row, Sentence, Series

TOLERANCE = 1e-7  # relative and absolute: Pulsar's 32-bit percentages leave an error of that size
MAX_TOLERANCE = 0.01  # the largest tolerance that a case may set
_COMMENTS = ("tolerance", "notes")  # about the case, no results of the method
_SETS = ("decisions",)  # Pulsar returns a HashSet
_COUNTERS = ("counter", "counters")  # a case may name only some of the counters
_ONE_OF = ("one_of", "any_of", "oneOf", "anyOf")  # names for the brokers that one is drawn from
_NOBODY = re.compile(r"|none|null|nobody|empty|no broker|Optional\.empty", re.IGNORECASE)


_WHICHEVER = re.compile(
    r"any(?: one)?(?: (?:of them|candidate|broker|of the (?:candidates|brokers|equals)))?(?: \(random\))?"
)
_SO_MANY = re.compile(r"any (?:one )?of the (\d+)(?: equally loaded| equal)?(?: brokers| candidates| equals)?")


class _UnknownWording(Exception):
    """An expectation in words that this module does not know."""


class _Nothing:
    """The adapter gave no result of that name."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def differences(expected: Any, observed: Mapping[str, Any]) -> list[str]:
    """One line for each expectation that was not met."""
    if not isinstance(expected, Mapping) or not expected:
        return [f"expected is {expected!r}: it must be an object that names at least one result"]
    tolerance = expected.get("tolerance", TOLERANCE)
    if not isinstance(tolerance, int | float) or not 0 <= tolerance <= MAX_TOLERANCE:
        return [f"tolerance is {tolerance!r}: it must be a number from 0 to {MAX_TOLERANCE}"]
    found: list[str] = []
    for name, value in expected.items():
        if name not in _COMMENTS:
            found += _one(name, value, observed, tolerance)
    if all(name in _COMMENTS for name in expected):
        found.append("expected names no result, only comments")
    return found


def step_differences(withheld: Sequence[Mapping[str, Any]], observed: Mapping[str, Any]) -> list[str]:
    """Compare the expectations of the steps themselves with the adapter's results of each step, `observed["steps"]`."""
    steps = observed.get("steps") or ()
    found: list[str] = []
    for at, answers in enumerate(withheld):
        for name, value in answers.items():
            result = steps[at] if at < len(steps) else {}
            # a step with a single result has it under any name
            single = set(result) == {"expect"} and name.startswith("expect")
            seen = result.get(name, result["expect"] if single else _NOTHING)
            found += _report(f"step {at + 1} {name}", value, seen, TOLERANCE)
    return found


def _one(name: str, value: Any, observed: Mapping[str, Any], tolerance: float) -> list[str]:
    seen = observed.get(name, _NOTHING)
    if name == "property":
        return _property(value, seen)
    if name.endswith("_in") and seen is _NOTHING and isinstance(value, list):
        seen = observed.get(name.removesuffix("_in"), _NOTHING)
        if isinstance(seen, Pick):
            return _report(name, value, seen, tolerance)
        return [] if seen in value else [f"{name}: {_format(seen)} is none of {value!r}"]
    if name in _SETS and isinstance(value, list) and isinstance(seen, list):
        value, seen = _sort(value), _sort([_like(value, item) for item in seen])
    if name in _COUNTERS and isinstance(value, Mapping) and isinstance(seen, Mapping):
        seen = _select_counters(value, seen)
    return _report(name, value, seen, tolerance)


def _report(name: str, value: Any, seen: Any, tolerance: float) -> list[str]:
    try:
        same = equal(value, seen, tolerance)
    except _UnknownWording as error:
        return [f"{name}: expectation {str(error)!r} is not understood"]
    return [] if same else [f"{name}: expected {value!r}, got {_format(seen)}"]


def _property(value: Any, seen: Any) -> list[str]:
    """Compare a property that the case states in words with the wordings and the finding of the adapter."""
    if not isinstance(value, str) or not value:
        return [f"property is {value!r}: it must be told in words"]
    if not isinstance(seen, Sentence):
        return [f"property: {_format(_NOTHING)}"]
    found = re.fullmatch(seen.form, " ".join(value.lower().split()))
    if found is None:
        return [f"property: expectation {value!r} is not understood"]
    if seen.holds is not True:
        return [f"property does not hold: {seen.holds}"]
    said = {name: float(text) for name, text in found.groupdict().items() if text is not None}
    return [
        f"property: {name} is {seen.figures[name]!r}, the case says {number:g}"
        for name, number in said.items()
        if not (seen.figures[name] == number if isinstance(seen.figures[name], int) else seen.figures[name] < number)
    ]


def equal(expected: Any, seen: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether the observed value meets the expectation."""
    if isinstance(seen, Either):
        return any(equal(expected, form, tolerance) for form in seen.forms)
    if isinstance(seen, Pick):
        return _matches_pick(expected, seen, tolerance)
    if isinstance(seen, Row) and isinstance(expected, Mapping) and expected:
        seen = {name: value for name, value in seen.items() if name in expected}
    if isinstance(seen, Series):
        return _series(expected, seen.values, tolerance)
    if isinstance(expected, bool) or isinstance(seen, bool) or expected is None:
        return expected is seen
    if isinstance(expected, int) and isinstance(seen, int):
        return expected == seen  # hashes and boundaries have no tolerance
    if isinstance(expected, int | float):
        return isinstance(seen, int | float) and math.isclose(expected, seen, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(expected, Mapping):
        return (
            isinstance(seen, Mapping)
            and expected.keys() == seen.keys()
            and all(equal(value, seen[name], tolerance) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(seen, list | tuple)
            and len(expected) == len(seen)
            and all(equal(a, b, tolerance) for a, b in zip(expected, seen, strict=True))
        )
    return bool(expected == seen)


def _series(expected: Any, values: tuple[Any, ...], tolerance: float) -> bool:
    if isinstance(expected, list):
        pairs = zip(expected, values, strict=False)
        return 0 < len(expected) <= len(values) and all(equal(a, b, tolerance) for a, b in pairs)
    return bool(values) and equal(expected, values[-1], tolerance)


def _matches_pick(expected: Any, seen: Pick, tolerance: float) -> bool:
    """A case names the only possible value, lists them all, or says that any will do ("any of the 99 …")."""
    if isinstance(expected, Mapping) and len(expected) == 1 and next(iter(expected)) in _ONE_OF:
        (expected,) = expected.values()
    if seen.value is None and isinstance(expected, str):
        return _NOBODY.fullmatch(expected) is not None
    if isinstance(expected, str) and re.match(r"any\b", expected):
        return seen.value is not None and _matches_any(expected, seen)
    if isinstance(expected, str) and len(seen.among) > 1 and seen.drawn:
        expected = re.split(r"\s*(?:,|\||\bor\b)\s*", expected)
    if isinstance(expected, list):
        return sorted(map(str, expected)) == sorted(map(str, seen.among))
    return (len(seen.among) <= 1 or not seen.drawn) and equal(expected, seen.value, tolerance)


def _matches_any(expected: str, seen: Pick) -> bool:
    """Match "any", "any of them", "any one of the 99 equally loaded brokers", "any of 1, 2, 5"; ", remembered" too."""
    text = expected.removesuffix(", remembered")
    if text != expected and not seen.remembered:
        return False
    if _WHICHEVER.fullmatch(text):
        return True
    counted = _SO_MANY.fullmatch(text)
    if counted is not None:
        return int(counted[1]) == len(seen.among)
    listed = re.fullmatch(r"any (?:one )?of (.+)", text)
    names = re.split(r"\s*(?:,\s*or\b|,|\||\bor\b|\band\b)\s*", listed[1]) if listed else []
    if not names or any(" " in name or not name for name in names):
        raise _UnknownWording(expected)
    return sorted(names) == sorted(map(str, seen.among))


def _like(expected: Sequence[Any], item: Any) -> Any:
    """The item, reduced to the fields that the case's items have."""
    named = {name for one in expected if isinstance(one, Mapping) for name in one}
    return (
        {name: value for name, value in item.items() if name in named} if named and isinstance(item, Mapping) else item
    )


def _sort(items: Sequence[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=str))


def _select_counters(expected: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
    """The observed counters that the case names. An adapter returns all counters, including those at 0."""
    result: dict[str, Any] = {}
    for name, value in expected.items():
        got = seen.get(name, _NOTHING)
        result[name] = _select_counters(value, got) if isinstance(value, Mapping) and isinstance(got, Mapping) else got
    return result


def _format(seen: Any) -> str:
    if seen is _NOTHING:
        return "nothing observed under that name"
    if isinstance(seen, Either):
        return " or ".join(map(_format, seen.forms))
    if isinstance(seen, Pick):
        return f"{seen.value!r} drawn from {list(seen.among)!r}"
    return repr(list(seen.values) if isinstance(seen, Series) else seen)
