"""The strategies of installed packages: entry points of group `ballast.strategies` (docs/write_a_strategy.md).

The metadata of the packages on sys.path is read once per process, when a strategy is requested that Ballast lacks.
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
    """The installed strategies by name. Raises ConfigError for a name that two entry points have."""
    from importlib.metadata import entry_points  # slow to import, and most commands need no plug-in

    found: dict[str, Plugin] = {}
    for point in sorted(entry_points(group=GROUP), key=str):
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
        plugin = Plugin(point.name, f"{package} (entry point {point.name} = {point.value})", point.load)
        before = found.setdefault(point.name, plugin)
        if before is not plugin:
            both = " and ".join(sorted((before.origin, plugin.origin)))
            raise ConfigError(f"strategy {point.name!r} is offered twice, by {both}: uninstall one of them")
    return found
