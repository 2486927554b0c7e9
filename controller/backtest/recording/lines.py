"""Reads one recorded line: a load report v1 as agents send it, or Pulsar's own (`{"ts", "broker", "report"}`).

Lines that the loads query would quarantine are refused with the same rule ids, as far as a recording allows.
`controller.loads.recorded` converts Pulsar's units.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord, printable, shown
from controller.domain.events import VERSION
from controller.domain.ids import Bundle, Session, check_broker_id
from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCES
from controller.domain.strict_json import is_whole
from controller.loads.recorded import END_OF_TIME_S, Overrides, is_gap, read_policies, read_record, to_load_report
from controller.policy.view.frame import LATENCIES

Floats = NDArray[np.float64]
SHOWN_CHARACTERS = 200
END_OF_TIME_MS = 1000 * END_OF_TIME_S
RECORDED_NONCE = "recorded"
_NUMBERS = frozenset({int, float})
_SAID = {"rows": "bundles", "totals": "totals", "latency": "latencies"}
_NAME = re.compile(r"[^/\s]{1,128}/[^/\s]{1,128}/0x[0-9a-f]{8}_0x[0-9a-f]{8}")


class Figures(NamedTuple):
    """The arguments of `Recorder.add_figures`."""

    broker: str
    order: tuple[int, ...]
    usage: Floats  # [R]
    limit: Floats  # [R]
    totals: Floats  # [F]
    latency: Floats  # [LATENCIES] ms
    names: list[str]
    rows: NDArray[np.float32]  # [k x F]


class LineReader:
    """Reads lines one by one; remembers the names that it has found valid. `policies`: the cluster's newest."""

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides
        self.policies: dict[str, dict[str, Any]] | None = None
        self._good: dict[str, str] = {}  # keeps one string per name, however many lines contain it

    def read(self, line: str | bytes, number: int) -> Figures | None:
        """The figures of a line; None for a gap, or policies. Raises BadRecord, whose `rule_id` says what is wrong."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRecord("not_json", f"line {number} is no JSON: {error}"[:SHOWN_CHARACTERS]) from None
        if not isinstance(document, dict):
            raise BadRecord("not_json", f"line {number} is no JSON object")
        policies = read_policies(document)
        if policies is not None:
            self.policies = policies
            return None
        return None if is_gap(document) else self.read_row(document, number)

    def read_row(self, document: dict[str, Any], number: int) -> Figures:
        """The figures of a parsed line that is no gap. Raises BadRecord."""
        if "report" in document:
            document = self._convert(document, number)
        elif document.get("v") != VERSION:
            given = shown(document.get("v"))
            text = f"line {number} has v = {given}, wanted {VERSION}, or ts, broker and report of Pulsar"
            raise BadRecord("version", text)
        try:
            figures = _figures(document)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadRecord("wrong_type", _told(number, error)) from None
        self._check(figures, number)
        return figures._replace(names=[self._good[name] for name in figures.names])

    def _convert(self, document: Mapping[str, Any], number: int) -> dict[str, Any]:
        try:
            recorded = read_record(document, number)
            session = Session(recorded.broker, 1, RECORDED_NONCE, 1)
            return to_load_report(recorded, session, number, self._overrides)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadRecord("wrong_type", _told(number, error)) from None

    def _check(self, figures: Figures, number: int) -> None:
        check_broker_id(figures.broker)
        if not all(map(is_whole, figures.order)) or figures.order[0] >= END_OF_TIME_MS:
            raise BadRecord(
                "no_timestamp",
                f"line {number}: sent_ms (ts x 1000 of Pulsar's), incarnation, sequence are {figures.order}",
            )
        for name in figures.names:
            if name not in self._good:
                if not _NAME.fullmatch(name):
                    raise BadRecord("bundle_name", f"line {number}: {name[:SHOWN_CHARACTERS]!r} is no bundle's name")
                Bundle.parse(name)
                self._good[name] = name
        if len(set(figures.names)) < len(figures.names):
            raise BadRecord("duplicate_bundle", f"line {number} lists a bundle twice")
        for what in ("rows", "totals", "latency"):
            values = getattr(figures, what)
            if not np.isfinite(values).all():
                raise BadRecord("nonfinite", f"line {number}: a number of its {_SAID[what]} is not finite")
            if (values < 0).any():
                raise BadRecord("negative", f"line {number}: a number of its {_SAID[what]} is below 0")
        if not (np.isfinite(figures.usage).all() and np.isfinite(figures.limit).all()):
            raise BadRecord("nonfinite", f"line {number}: a usage or limit is not finite")
        limited = figures.limit > 0
        wrong = limited & ((figures.usage < 0) | (figures.usage > IMPOSSIBLE_FACTOR * figures.limit))
        if wrong.any():
            at = int(np.argmax(wrong))
            usage = f"{RESOURCES[at]} usage {figures.usage[at]:g} with a limit of {figures.limit[at]:g}"
            raise BadRecord("impossible", f"line {number}: {usage}")


def _figures(report: Mapping[str, Any]) -> Figures:
    """Raises KeyError, TypeError or ValueError."""
    resources, bundles = report["resources"], report["bundles"]
    parts = _numbers([[resources[r][part] for r in RESOURCES] for part in ("usage", "limit")], "resources", 2)
    names = [bundle["bundle"] for bundle in bundles]
    for name in (report["broker"], *names):
        if not isinstance(name, str):
            raise TypeError(f"{shown(name)} is no name")
    with np.errstate(over="ignore"):  # values too large for float32 are refused as not finite
        rows = _numbers([[bundle[f] for f in BUNDLE_FIELDS] for bundle in bundles], "bundles", 2).astype(np.float32)
    sent_ms, incarnation, sequence = (_whole(report, name) for name in ("sent_ms", "incarnation", "sequence"))
    return Figures(
        broker=report["broker"],
        order=(sent_ms, incarnation, sequence),
        usage=parts[0],
        limit=parts[1],
        totals=_numbers([report["totals"][f] for f in BUNDLE_FIELDS], "totals", 1),
        latency=_numbers([report[name] for name in LATENCIES], "latencies", 1),
        names=names,
        rows=rows,
    )


def _numbers(values: list[Any], what: str, dimensions: int) -> Floats:
    """The values as doubles. Raises TypeError for texts, nulls and lists, which numpy would accept as numbers."""
    rows = values if dimensions == 2 else [values]
    if not all(_NUMBERS.issuperset(map(type, row)) for row in rows):  # numpy would make all as wide as the widest text
        raise TypeError(f"{what}: a value is no number")
    array = np.array(values)
    if array.dtype.kind not in "iuf" or (values and array.ndim != dimensions):
        raise TypeError(f"{what}: a value is too large")
    return array.astype(np.float64)


def _whole(report: Mapping[str, Any], name: str) -> int:
    value = report[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} {shown(value)} is no number")
    return int(value)


def _told(number: int, error: Exception) -> str:
    return f"line {number}: {type(error).__name__} {printable(str(error)[:SHOWN_CHARACTERS])}"
