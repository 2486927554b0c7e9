"""A case as its adapter reads it: objects that record which of their fields were read.

Getting a field's value counts as reading it; testing for the field or iterating over the names does not. A field that
the adapter has not read cannot have affected the result, so such a case fails with the name of the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_READ_BY_THE_RUNNER = ("kind", "strategy", "notes")
# every case has these fields or may have them (see the documentation of the format); empty ones have no meaning
_MAY_BE_EMPTY = (
    *("config", "brokers", "bundles", "recently_unloaded", "recently_unloaded_brokers", "available_brokers"),
    *("steps", "state", "policies", "split_boundaries", "namespace_bundle_count"),
)


class Fields(Mapping[str, Any]):
    """An object of a case. Objects in it are Fields as well, also those in lists."""

    def __init__(self, values: Mapping[str, Any], path: str = "", latest: list[str] | None = None) -> None:
        self._path = path
        self._latest: list[str] = [] if latest is None else latest  # the last field read in the whole case
        self._values = {name: _wrap(value, self._at(name), self._latest) for name, value in values.items()}
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._latest[:] = [f"field {self._at(str(name))}, which is missing,"]
            raise KeyError(name)
        value = self._values[name]
        self._latest[:] = [f"field {self._at(name)}, which is {value!r},"]
        self._read.add(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or the default. A missing optional field is not reported as missing."""
        return self[name] if name in self._values else default

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def last_read(self) -> str:
        """The last field read anywhere in the case: what an adapter failed on, or close to it."""
        return self._latest[0] if self._latest else "the case"

    def unread(self) -> list[str]:
        """Paths of the fields that were not read, in the order of the case: `steps[2].foo`."""
        found: list[str] = []
        for name, value in self._values.items():
            if name in self._read:
                found += _unread(value)
            else:
                found += [f"{self._at(name)}.{inner}" for inner in value] if _is_filled(value) else [self._at(name)]
        return found

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def unknown_fields(case: Fields) -> list[str]:
    """Paths of the fields of a whole case that its adapter does not know."""
    spared = {name for name in _MAY_BE_EMPTY if name in case and not case._values[name]}
    spared.update(_READ_BY_THE_RUNNER)
    return [path for path in case.unread() if path not in spared]


def first(row: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """The value under one of several names for the same thing. A second one stays unread, as it may contradict."""
    for name in names:
        if name in row and (value := row[name]) is not None:
            return value
    return default


def known(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields of these names that are present and not null."""
    return {name: value for name in names if name in row and (value := row[name]) is not None}


def pass_over(row: Mapping[str, Any], *names: str) -> None:
    """Mark as read the fields that Pulsar ignores in this method: a case may have them, without any effect."""
    known(row, *names)


def _wrap(value: Any, path: str, latest: list[str]) -> Any:
    if isinstance(value, Mapping):
        return Fields(value, path, latest)
    if isinstance(value, list):
        return [_wrap(one, f"{path}[{at}]", latest) for at, one in enumerate(value)]
    return value


def _is_filled(value: Any) -> bool:
    return isinstance(value, Fields) and len(value) > 0


def _unread(value: Any) -> list[str]:
    if isinstance(value, Fields):
        return value.unread()
    if isinstance(value, list):
        return [path for one in value for path in _unread(one)]
    return []
