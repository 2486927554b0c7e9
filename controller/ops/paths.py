"""Where things lie: the project's root, its configuration, its cache of JARs, the local run folder.

The root is the checkout, or BALLAST_HOME, or ~/.ballast where the package is installed elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from controller.config.places import home

ROOT = home()
CONF = ROOT / "conf"
JARS = ROOT / ".cache" / "jars"
RUN = ROOT / "run"


def jars_of(group: str) -> list[Path]:
    """The JARs of one group (`spark` or `kafka`) as they lie in the cache; empty before `make setup`."""
    return sorted((JARS / group).glob("*.jar"))
