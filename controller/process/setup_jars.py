"""Fills the cache of JARs: downloads missing ones with the Ivy that PySpark ships, and verifies all of them.

Ivy gets exact artifacts without their dependencies, so nothing is resolved again and the result is that of the lock. A
complete cache is verified without a JVM and without a network.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from controller.process.paths import SET_UP, make_folder
from controller.process.setup_ivy import PATTERN, SetupFailed, fetch_artifacts, pyspark_jars
from controller.process.setup_lock import GROUPS, Coordinate, Lock, LockedJar, sha256_of


def ensure_jars(lock: Lock, cache: Path, say: Callable[[str], None] = print) -> None:
    """Verify the cache, download missing JARs, and remove those of other versions, which would be loaded too. Raises
    SetupFailed, and ConfigError where the cache cannot be written to."""
    for group in GROUPS:
        ensure_group(lock, group, cache, say)


def ensure_group(lock: Lock, group: str, cache: Path, say: Callable[[str], None] = print) -> None:
    """The same for one group, which may be an extra one."""
    wanted = lock.of_group(group)
    folder = cache / group
    names = {jar.coordinate.file_name for jar in wanted}
    for file in folder.glob("*.jar"):
        if file.name not in names:
            say(f"removing {file.relative_to(cache)}: not in the lock")
            file.unlink()
    missing = [jar for jar in wanted if not (folder / jar.coordinate.file_name).exists()]
    verify([jar for jar in wanted if jar not in missing], cache)
    if missing:
        make_folder(folder)  # a complete cache may be read-only
        say(f"downloading {len(missing)} JARs for {group} (once; they stay in {cache})")
        _download(missing, folder)


def verify(jars: Iterable[LockedJar], cache: Path) -> None:
    """Raise SetupFailed for the first file whose checksum differs from the lock."""
    for jar in jars:
        file = cache / jar.group / jar.coordinate.file_name
        found = sha256_of(file)
        if found != jar.sha256:
            raise SetupFailed(
                f"checksum mismatch: {file} has sha256 {found}, the lock says {jar.sha256}."
                f" Delete the file and run `{SET_UP}` again"
            )


def resolve_roots(roots: Sequence[tuple[str, Coordinate]]) -> list[LockedJar]:
    """The roots and their dependencies by Maven's metadata, without those that PySpark ships. To refresh the lock."""
    shipped = {_module_of(file.name) for file in pyspark_jars().glob("*.jar")}
    found: list[LockedJar] = []
    for group in GROUPS:
        wanted = [coordinate for of_group, coordinate in roots if of_group == group]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            retrieved = fetch_artifacts(wanted, folder, transitive=True, pattern="[organisation]/" + PATTERN)
            for file in sorted(retrieved.rglob("*.jar")):
                coordinate = _coordinate_of(file, retrieved)
                if group == "spark" and _module_of(file.name) in shipped:
                    continue
                found.append(LockedJar(group, coordinate, sha256_of(file)))
    return found


def _download(missing: list[LockedJar], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        staged = fetch_artifacts([jar.coordinate for jar in missing], Path(temporary))
        for jar in missing:
            file = staged / jar.coordinate.file_name
            if not file.exists():
                raise SetupFailed(f"{jar.coordinate} was not delivered; run `{SET_UP}` again")
            found = sha256_of(file)
            if found != jar.sha256:
                raise SetupFailed(
                    f"checksum mismatch: {file.name} as downloaded has sha256 {found}, the lock says {jar.sha256}."
                    f" Nothing was installed. Run `{SET_UP}` again; if it stays, the repository delivers another file"
                )
        # Only verified files enter the cache, each by an atomic rename: an interrupted run leaves no partial file.
        for jar in missing:
            shutil.move(staged / jar.coordinate.file_name, folder / jar.coordinate.file_name)


def _module_of(file_name: str) -> str:
    """`kafka-clients-3.9.0.jar` → `kafka-clients`."""
    return re.sub(r"-\d[^-]*(-\d+|\.Final)?\.jar$", "", file_name)


def _coordinate_of(file: Path, base: Path) -> Coordinate:
    name = _module_of(file.name)
    return Coordinate(file.relative_to(base).parts[0], name, file.name[len(name) + 1 : -len(".jar")])
