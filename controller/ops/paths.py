"""Where things lie: the project's root, its configuration, its cache of JARs, the local run folder.

The root is the folder above the package `controller` (a checkout), or BALLAST_HOME where the package is installed
elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(os.environ.get("BALLAST_HOME") or Path(__file__).resolve().parents[2])
CONF = ROOT / "conf"
JARS = ROOT / ".cache" / "jars"
RUN = ROOT / "run"


def jars_of(group: str) -> list[Path]:
    """The JARs of one group (`spark` or `kafka`) as they lie in the cache; empty before `make setup`."""
    return sorted((JARS / group).glob("*.jar"))
