"""Run a file of Pulsar's load-balancing cases against Ballast's Pulsar strategies.

    python -m benchmarks.conformance FILE

Prints one line for each case: `pass`, `fail` with the differences, or `n/a` with the reason. The last line is JSON:
`{"pass": n, "fail": n, "not_applicable": n}`. Exits with 1 if a case failed or more than 5 % of the cases were not
applicable, and with 2 if the file cannot be read.

The runner removes a case's expectations, its id and the name of its source test before an adapter sees the case, and
uses them only for the comparison. A case fails if its kind is unknown or has no such strategy, if the adapter raises an
exception, if the adapter does not read one of the fields (except the comments `source_test`, `provenance`, `notes`, and
`why` in a step), or if there is no result to compare an expectation with.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.conformance.compare import differences, step_differences
from benchmarks.conformance.extensible import kinds as conformance_extensible
from benchmarks.conformance.layout import by_name, knobs_of
from benchmarks.conformance.modular import kinds as conformance_modular
from benchmarks.conformance.reading import Fields, unknown_fields
from benchmarks.conformance.shapes import check_shapes
from benchmarks.conformance.values import Adapter, Adapters, BadCase, NotApplicable
from controller.domain.errors import BallastError

MAX_NOT_APPLICABLE = 0.05  # of the cases in the file
OUTCOMES = ("pass", "fail", "not_applicable")
_PROVENANCE = ("id", "source_test", "provenance")
_STEP_COMMENTS = ("source_test", "provenance", "notes", "why")
_STEP_ANSWERS = ("tombstone",)  # expected results of a step, besides all names that start with "expect"


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    if len(arguments) != 1:
        print("usage: python -m benchmarks.conformance FILE", file=sys.stderr)
        return 2
    try:
        cases = read_cases(Path(arguments[0]))
    except (OSError, ValueError) as error:
        print(f"cannot read the cases in {arguments[0]}: {error}", file=sys.stderr)
        return 2
    count: Counter[str] = Counter()
    for case in cases:
        outcome, text = run_case(case)
        count[outcome] += 1
        print(text)
    print(json.dumps({outcome: count[outcome] for outcome in OUTCOMES}))
    return 1 if count["fail"] or count["not_applicable"] > MAX_NOT_APPLICABLE * len(cases) else 0


def read_cases(path: Path) -> list[Mapping[str, Any]]:
    """Read a JSON array of cases, or an object with the array under `cases`. Raises OSError or ValueError."""
    document = json.loads(path.read_text())
    cases = document.get("cases") if isinstance(document, dict) else document
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ValueError("it must be a JSON array of objects")
    if not cases:
        raise ValueError("there are no cases in it")
    return cases


def run_case(case: Mapping[str, Any], adapters: Adapters | None = None) -> tuple[str, str]:
    """Run one case; return one of OUTCOMES and the line to print."""
    name = f"{case.get('id', '?')} {case.get('kind')} {case.get('strategy', '')}: {case.get('source_test', '')}"
    try:
        check_shapes(case)
    except BadCase as error:
        return "fail", f"fail {name}: {error}"
    question, withheld = withhold(case)
    known = _all_adapters() if adapters is None else adapters
    adapter = find_adapter(question, known)
    if adapter is None:
        return "fail", f"fail {name}: {_explain_missing_adapter(question, known)}"
    try:
        observed = adapter(question)
        knobs_of(question)  # a knob that the method ignores is read all the same: Pulsar ignores it as well
    except NotApplicable as reason:
        return "not_applicable", f"n/a  {name}: {reason}"
    except BallastError as error:
        return "fail", f"fail {name}: {error}"
    except BadCase as error:
        return "fail", f"fail {name}: {error}"
    except Exception as error:  # a case that crashes the code under test is a finding, and the next one must still run
        return "fail", f"fail {name}: {question.last_read()} cannot be used here ({type(error).__name__}: {error})"
    unknown = unknown_fields(question)
    if unknown:
        kind = f"kind {case.get('kind')!r}, strategy {case.get('strategy')!r}"
        return "fail", f"fail {name}: {'; '.join(f'field {path} is not known to {kind}' for path in unknown)}"
    found = differences(case.get("expected"), observed) + step_differences(withheld, observed)
    if found:
        return "fail", f"fail {name}: {'; '.join(found)}"
    return "pass", f"pass {name}"


def withhold(case: Mapping[str, Any]) -> tuple[Fields, list[dict[str, Any]]]:
    """Split a case into what its adapter may see and what each step expects."""
    question = {name: value for name, value in case.items() if name != "expected" and name not in _PROVENANCE}
    question |= {name: by_name(question.get(name) or {}) for name in ("config", "brokers", "bundles")}
    steps = question.get("steps")
    if not isinstance(steps, list):
        return Fields(question), []
    withheld = [_answers(step) if isinstance(step, dict) else {} for step in steps]
    question["steps"] = [
        {name: value for name, value in step.items() if not (_is_answer(name) or name in _STEP_COMMENTS)}
        if isinstance(step, dict)
        else step
        for step in steps
    ]
    return Fields(question), withheld


def find_adapter(case: Mapping[str, Any], adapters: Adapters) -> Adapter | None:
    """Find the adapter of this kind and strategy, else of this kind, whose adapter reads the strategy itself."""
    kind, strategy = str(case.get("kind")), _normalise(str(case.get("strategy")))
    return adapters.get((kind, strategy)) or adapters.get(kind)


def _explain_missing_adapter(case: Mapping[str, Any], adapters: Adapters) -> str:
    kind, strategy = case.get("kind"), case.get("strategy")
    strategies = sorted(key[1] for key in adapters if isinstance(key, tuple) and key[0] == kind)
    known = f" (field strategy of this kind is {' or '.join(strategies)})" if strategies else ""
    return f"no adapter for kind {kind!r}, strategy {strategy!r}{known}"


def _normalise(strategy: str) -> str:
    """The name with its manager in full: (ext) and (extension) become (extensions)."""
    return re.sub(r"\(ext(?:ension|ensible)?s?\)$", "(extensions)", strategy, flags=re.IGNORECASE)


def _all_adapters() -> Adapters:
    return {**conformance_modular.ADAPTERS, **conformance_extensible.ADAPTERS}


def _answers(step: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if _is_answer(name)}


def _is_answer(name: str) -> bool:
    return name.startswith("expect") or name in _STEP_ANSWERS
