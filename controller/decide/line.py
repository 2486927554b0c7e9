"""Parses one line of `ballast decide` into arrays, or refuses it and names the wrong value.

A line is checked as strictly as a load report: numbers are finite, rates are not negative, every bundle has all its
figures. A negative usage with a known limit only makes that broker unreadable; a limit <= 0 means that the resource is
unknown. A usage may exceed its limit by any factor, because lines may contain demand rather than what was served.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from controller.domain.errors import BadRecord, InvariantBroken, label
from controller.domain.load import RESOURCES
from controller.domain.strict_json import check_unique_keys

Floats = NDArray[np.float64]

RESOURCE_KEYS = {
    "cpu": "cpu",  # percent of one core
    "memory": "memory",  # bytes
    "directMemory": "direct_memory",  # bytes
    "bandwidthIn": "bandwidth_in",  # bytes/s
    "bandwidthOut": "bandwidth_out",  # bytes/s
}
BUNDLE_FIGURES = ("msgRateIn", "msgRateOut", "throughputIn", "throughputOut", "topics", "producers", "consumers")
LARGEST = 2.0**53  # beyond it, neither JSON readers nor the integers of a round are exact
_SHOWN = 80
_COLUMNS = tuple(RESOURCES.index(name) for name in RESOURCE_KEYS.values())
_NUMBERS = frozenset({int, float})


@dataclass(frozen=True, eq=False)
class Line:
    """One line: B brokers in the order of the line, M bundles in the order of their brokers."""

    now_ms: int
    members_changed: bool
    brokers: tuple[str, ...]
    usage: Floats  # [B x R] NaN unknown
    limit: Floats  # [B x R] NaN unknown
    readable: NDArray[np.bool_]  # [B] false if the broker's figures are impossible
    bundles: list[str]  # [M]
    held: NDArray[np.int64]  # [B] number of bundles of each broker
    figures: Floats  # [M x BUNDLE_FIGURES]


def parse_line(raw: bytes) -> Line:
    """Parse a line. Raises BadRecord, which names the wrong value and what would be right."""
    document = _document(raw)
    brokers = _object(document.get("brokers"), "brokers", "an object of broker id -> figures")
    now_ms: Any = document.get("now")
    if type(now_ms) not in _NUMBERS or not 0 <= now_ms <= LARGEST:
        raise BadRecord("now", f"now = {_quote(now_ms)}: give the line's time in ms, a number >= 0")
    changed = document.get("membersChanged", False)
    if not isinstance(changed, bool):
        raise BadRecord("membersChanged", f"membersChanged = {_quote(changed)}: give true or false")
    bodies = [_object(body, f"brokers.{label(name)}", "an object of figures") for name, body in brokers.items()]
    usage, limit, readable = _resources(tuple(brokers), bodies)
    held = [_object(body.get("bundles", {}), f"{label(name)}.bundles", "an object of bundle -> figures")
            for name, body in brokers.items()]  # fmt: skip
    _check_unique(raw, len(document) + len(brokers) + sum(map(len, bodies)) + sum(map(len, held)))
    return Line(
        now_ms=int(now_ms),
        members_changed=changed,
        brokers=tuple(brokers),
        usage=usage,
        limit=limit,
        readable=readable,
        bundles=list(chain.from_iterable(held)),
        held=np.fromiter(map(len, held), np.int64, len(held)),
        figures=_figures(tuple(brokers), held),
    )


def _document(raw: bytes) -> Mapping[str, Any]:
    try:
        document = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise BadRecord("line_json", f"{_quote(raw.decode(errors='replace'))} is no JSON object: {error}") from None
    return _object(document, "the line", "a JSON object with now and brokers")


def _check_unique(raw: bytes, names: int) -> None:
    """Raise BadRecord if a name stands twice in one object: the parser would keep the last one without a word.

    Each `":` ends a name, or is part of a text, or begins one, unless blanks stand between: as many of them as `names`
    that were read prove that none was lost. Only where they prove nothing are the names read again, one by one.
    """
    if raw.count(b'":') != names or any(raw.count(blank) for blank in (b" :", b"\t:", b"\n:", b"\r:")):
        check_unique_keys(raw)


def _object(value: object, what: str, wanted: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadRecord("line_shape", f"{what} = {_quote(value)}: give {wanted}")
    if "" in value:
        raise BadRecord("line_shape", f"{what} has an empty name: give every broker and bundle a name")
    return value


def _resources(names: Sequence[str], bodies: Sequence[Mapping[str, Any]]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Usage and limit [B x R], NaN if the limit is unknown, and which brokers have possible figures [B]."""
    pairs: list[Sequence[float]] = []
    for name, body in zip(names, bodies, strict=True):
        for key in RESOURCE_KEYS:
            pair = body.get(key)
            if pair is not None:
                _check_numbers(pair, f"{label(name)}.{key}", ("usage", "limit"))
            pairs.append((-1.0, -1.0) if pair is None else pair)
    values = np.array(pairs, np.float64).reshape(len(names), len(RESOURCE_KEYS), 2)
    usage = np.full((len(names), len(RESOURCES)), np.nan)
    limit = usage.copy()
    usage[:, _COLUMNS], limit[:, _COLUMNS] = values[..., 0], values[..., 1]
    known = limit > 0
    impossible = known & (usage < 0)
    usage[~known], limit[~known] = np.nan, np.nan
    return usage, limit, np.asarray(~impossible.any(axis=1))


def _figures(brokers: Sequence[str], held: Sequence[Mapping[str, Any]]) -> Floats:
    """[M x BUNDLE_FIGURES]. All figures are checked at once; wrong ones are then searched for one by one."""
    rows = list(chain.from_iterable(bundles.values() for bundles in held))
    if set(map(type, rows)) <= {list} and set(map(len, rows)) <= {len(BUNDLE_FIGURES)}:
        flat = list(chain.from_iterable(rows))
        if set(map(type, flat)) <= _NUMBERS and min(flat, default=0) >= 0 and max(flat, default=0) <= LARGEST:
            return np.array(flat, np.float64).reshape(len(rows), len(BUNDLE_FIGURES))
    _refuse_row(brokers, held)
    raise InvariantBroken(f"{len(rows)} bundles hold a figure that no rule refuses")


def _refuse_row(brokers: Sequence[str], held: Sequence[Mapping[str, Any]]) -> None:
    """Raise for the first bundle with wrong figures. It is slow, and only called if there is one."""
    for broker, bundles in zip(brokers, held, strict=True):
        for name, row in bundles.items():
            what = f"{label(broker)}.bundles.{label(name)}"
            _check_numbers(row, what, BUNDLE_FIGURES)
            for figure, value in zip(BUNDLE_FIGURES, row, strict=True):
                if value < 0:
                    raise BadRecord("bundle_figures", f"{what}: {figure} = {value}: give 0 or more")


def _check_numbers(values: object, what: str, wanted: Sequence[str]) -> None:
    if not isinstance(values, list) or len(values) != len(wanted):
        raise BadRecord("line_shape", f"{what} = {_quote(values)}: give {len(wanted)} numbers, [{', '.join(wanted)}]")
    for name, value in zip(wanted, values, strict=True):
        if type(value) not in _NUMBERS or not abs(value) <= LARGEST:
            raise BadRecord("line_number", f"{what}: {name} = {_quote(value)}: give a number of at most 2^53")


def _quote(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
