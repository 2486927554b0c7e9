"""The release of Pulsar that clusters are made of: which one, and where it is unpacked.

`python -m controller.testbed.pulsar.distribution` fetches it ahead of time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from controller.domain.errors import BallastError
from controller.process.paths import CONF, ROOT
from controller.process.setup_archive import ensure_unpacked
from controller.process.setup_lock import read_lock

LOCK_FILE = CONF / "jars.lock"
CACHE = ROOT / ".cache" / "pulsar"
ARCHIVE = "pulsar"


def pulsar_version() -> str:
    """The version in conf/jars.lock, the one place that names it."""
    return read_lock(LOCK_FILE).archive(ARCHIVE).coordinate.version


def pulsar_home(say: Callable[[str], None] = print) -> Path:
    """The unpacked release, downloaded if it is not in the cache. Raises SetupFailed, in one line, if it cannot be."""
    archive = read_lock(LOCK_FILE).archive(ARCHIVE)
    return ensure_unpacked(archive, CACHE, say, size="245 MB", again="the command").resolve()


if __name__ == "__main__":
    try:
        print(f"ready: {pulsar_home()}")
    except BallastError as error:
        sys.exit(f"pulsar: {error}")
