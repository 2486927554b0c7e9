"""The shapes of the fields that every kind of case may have, checked before an adapter reads them.

A value of another shape would be read as empty, or cause an error that names no field. Null is allowed where a case
says with it that there is nothing: no such objects in the case, no report of a broker, no broker in a transfer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.conformance.layout import by_name
from benchmarks.conformance.values import BadCase

_NAMING = ("recently_unloaded", "recently_unloaded_brokers", "split_boundaries")  # bundles or brokers of the case
_MAY_BE_NULL = re.compile(
    r"config|brokers|bundles|recently_unloaded(_brokers)?|available_brokers|policies|state|split_boundaries|notes"
    r"|namespace_bundle_count"  # the case has none of them
    r"|from|to|.*(source|dst)Broker"  # a state of the channel without an entry, or an entry without that broker
    r"|(brokers|split_boundaries)\.[^.]+"  # nothing is known of that broker, or of that bundle's boundaries
    r"|brokers\.(.+\.)?(cpu|memory|directMemory|bandwidthIn|bandwidthOut|bundles)"  # never sampled, or none
    r"|bundles\.(quota|positions)"
    r"|steps\[\d+\]\.(brokers|topics|versions|weightedMaxEMA)\.[^.]+"
)
_TYPES = ((bool, "a boolean"), (str, "a string"), (int | float, "a number"), (Mapping, "an object"), (list, "a list"))
Shape = tuple[str, Callable[[Any], bool]]


def check_shapes(case: Mapping[str, Any]) -> None:
    """Raises BadCase with the name of the first field of the wrong shape, in the case or one of its steps."""
    question = {name: by_name(value) for name, value in case.items() if name != "expected"}
    for path in _nulls_in(question):
        if not _MAY_BE_NULL.fullmatch(path):
            raise BadCase(f"field {path} is null: give it a value or leave it out")
    mentioned = set(_names_in({name: value for name, value in case.items() if name not in ("expected", *_NAMING)}))
    shapes = {**_SHAPES, "brokers": _LOADS} if case.get("strategy") == "LoadStats" else _SHAPES
    rows = [("", case, shapes)]
    steps = case.get("steps") if _list(case.get("steps")) else ()
    rows += [(f"steps[{at}].", step, _STEP_SHAPES) for at, step in enumerate(steps or ()) if isinstance(step, Mapping)]
    for where, row, wanted_of in rows:
        for name, (wanted, fits) in wanted_of.items():
            if row.get(name) is not None and not fits(row[name]):
                raise BadCase(f"field {where}{name} is {row[name]!r}: it must be {wanted}, not {_type(row[name])}")
        for name in _NAMING:
            unknown = [one for one in row.get(name) or () if one not in mentioned and "/" not in one]
            if unknown:
                raise BadCase(f"field {where}{name} names {unknown[0]!r}: the case has no such bundle or broker")


def _nulls_in(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all nulls in a value, except where a step says what it expects."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not (path.startswith("steps[") and str(name).startswith("expect")):
                yield from _nulls_in(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _nulls_in(inner, f"{path}[{at}]")
    elif value is None:
        yield path


def _type(value: Any) -> str:
    plain = next((name for kind, name in _TYPES if isinstance(value, kind)), type(value).__name__)
    kinds = {_type(one).partition(" ")[2] for one in value} if _list(value) else set()
    return f"{plain} of {' and '.join(sorted(f'{one}s' for one in kinds))}" if kinds else plain


def _names_in(value: Any) -> Iterator[str]:
    """Every key and every string in a value."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names_in(inner)
    elif isinstance(value, str):
        yield value


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _string(value: Any) -> bool:
    return isinstance(value, str)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _list(value) and all(map(fits, value))


def _mapping_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(one is None or fits(one) for one in value.values())


def _any_of(*tries: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(fits(value) for fits in tries)


def _object(value: Any) -> bool:
    return isinstance(value, Mapping) or value == []


def _rows(value: Any) -> bool:
    """An object, or a list of objects with their names."""
    return _object(by_name(value))


_MOMENTS = _any_of(_list_of(_string), _mapping_of(_any_of(_number, _string)))
_SHAPES: Mapping[str, Shape] = {
    "config": ("an object", _object),
    "brokers": ("an object or a list of objects with names", _rows),
    "bundles": ("an object or a list of objects with names", _rows),
    "recently_unloaded": ("a list of names, or moments by name", _MOMENTS),
    "recently_unloaded_brokers": ("a list of names, or moments by name", _MOMENTS),
    "available_brokers": ("a list of names or an object of them", _any_of(_list_of(_string), _object)),
    "policies": ("an object", _object),
    "state": ("an object", _object),
    "split_boundaries": ("lists of positions by bundle", _mapping_of(_list_of(_any_of(_number, _string)))),
    "namespace_bundle_count": (
        "a number, numbers by namespace or 'error'",
        _any_of(_number, _mapping_of(_number), lambda value: value == "error"),
    ),
    "steps": ("a list of objects, texts or lists of names", _list_of(_any_of(_string, _object, _list_of(_string)))),
    "notes": ("a string", _string),
}
_LOADS = ("an object, a list of objects with names, or a list of loads", _any_of(_rows, _list_of(_number)))
_STEP_SHAPES = {name: shape for name, shape in _SHAPES.items() if name not in ("state", "steps", "notes")}
_STEP_SHAPES["brokers"] = ("an object or a list of names", _any_of(_rows, _list_of(_string)))
