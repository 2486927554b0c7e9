"""The strategies of installed packages: entry points of group `ballast.strategies` (docs/write_a_strategy.md).

Metadata of the packages on sys.path are read once a process, when a strategy is asked for that Ballast does not have.
"""

from __future__ import annotations

from functools import lru_cache

from controller.domain.errors import ConfigError
from controller.policy.plugins import Plugin, find_plugins_by

GROUP = "ballast.strategies"


def use_installed_strategies() -> None:
    """Let this process find the strategies of other packages by their names."""
    find_plugins_by(installed_strategies)


@lru_cache(maxsize=1)
def installed_strategies() -> dict[str, Plugin]:
    """By name. Raises ConfigError for a name that two entry points have: which one is meant nobody can tell."""
    from importlib.metadata import entry_points  # takes time that a command without a strategy need not spend

    found: dict[str, Plugin] = {}
    for point in sorted(entry_points(group=GROUP), key=str):
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
        plugin = Plugin(point.name, f"{package} (entry point {point.name} = {point.value})", point.load)
        before = found.setdefault(point.name, plugin)
        if before is not plugin:
            both = " and ".join(sorted((before.origin, plugin.origin)))
            raise ConfigError(f"strategy {point.name!r} is offered twice, by {both}: uninstall one of them")
    return found
