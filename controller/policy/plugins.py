"""Strategies that other installed packages offer, by name.

What is installed is not a policy's business: each process says at its start how to look (`find_plugins_by`), and nobody
looks before a name is asked for that Ballast itself does not have. A plug-in is imported when its own name is asked
for. This module imports no strategy, so that a command without one starts quickly.
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
    """Look for plug-ins by this function from now on. It may raise ConfigError for what is installed."""
    _finders[:] = [finder]


def find_plugins() -> Mapping[str, Plugin]:
    """All plug-ins by name; none in a process that has not said how to look."""
    return _finders[0]() if _finders else {}
