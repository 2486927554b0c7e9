"""`python -m controller.process.setup`: the part of `make setup` that follows the virtual environment.

It checks Java and fills the cache of JARs. With everything in place it prints one line and takes less than a second.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from controller.domain.errors import BallastError
from controller.process.paths import CONF, JARS
from controller.process.setup_jars import ensure_group, ensure_jars, resolve_roots
from controller.process.setup_java import find_java
from controller.process.setup_lock import read_lock, write_jars

LOCK_FILE = CONF / "jars.lock"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check Java and fill the cache of JARs.")
    parser.add_argument("--refresh-lock", action="store_true", help="resolve the lock's roots again and rewrite it")
    options = parser.parse_args(arguments)
    try:
        if options.refresh_lock:
            jars = resolve_roots(read_lock(LOCK_FILE).roots)
            write_jars(LOCK_FILE, jars)
            print(f"{LOCK_FILE}: {len(jars)} JARs")
        print(set_up(JARS))
    except BallastError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


def set_up(cache: Path) -> str:
    """Complete the cache, and say what there is. Raises ConfigError without a fit Java, SetupFailed."""
    java = find_java()
    lock = read_lock(LOCK_FILE)
    ensure_jars(lock, cache)
    return f"ready: Java {java.version} ({java.found_by}: {java.home}), {len(lock.jars)} JARs verified"


def set_up_extra(group: str, cache: Path) -> str:
    """Download an extra group of the lock, and say where it is. Raises SetupFailed."""
    ensure_group(read_lock(LOCK_FILE), group, cache)
    return f"{group}: ready in {cache / group}"


if __name__ == "__main__":
    sys.exit(main())
