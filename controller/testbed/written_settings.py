"""The values of `--set` as part of a configuration file, where they mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.config.settings import DEFINITIONS
from controller.config.sources import layer_of_overrides
from controller.domain.errors import without_login


def with_overrides(document: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The document of a file with these overrides in it, under our names and in our units.

    No secret gets into the file: `--set` refuses passwords, and an address with a login is left out. Raises ConfigError
    for an override that is not allowed.
    """
    merged = dict(document)
    for path, given in layer_of_overrides(overrides).items():
        if _has_login(given.value):
            continue
        section, _, key = path.partition(".")
        inner = dict(merged.get(section) or {})
        value: Any = list(given.value) if isinstance(given.value, tuple) else given.value
        inner[key] = {**inner.get(key, {}), **value} if DEFINITIONS[path].is_mapping else value
        merged[section] = inner
    return merged


def _has_login(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_login, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_login, value))
    return isinstance(value, str) and without_login(value) != value
