"""Strategies that other installed packages offer, by name.

Policies do not look at what is installed: each process sets a finder at its start (`find_plugins_by`), which runs when
a name is requested that Ballast itself does not have. A plug-in is imported when its own name is requested. This module
imports no strategy, so that a command without one starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Plugin(NamedTuple):
    """`origin`: its package and entry point, for messages. `load`: imports it; a class, or an instance of one."""

    name: str
    origin: str
    load: Callable[[], Any]


Finder = Callable[[], Mapping[str, Plugin]]
_finders: list[Finder] = []  # of this process, at most one


def find_plugins_by(finder: Finder) -> None:
    """Find plug-ins with this function from now on. It may raise ConfigError."""
    _finders[:] = [finder]


def find_plugins() -> Mapping[str, Plugin]:
    """All plug-ins by name; none in a process without a finder."""
    return _finders[0]() if _finders else {}
