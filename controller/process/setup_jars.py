"""Fills the cache of JARs: downloads missing ones with the Ivy that PySpark ships, and verifies all of them.

Ivy gets exact artifacts without their dependencies, so nothing is resolved again and the result is that of the lock. A
complete cache is verified without a JVM and without a network. An organisation with its own repository sets
BALLAST_IVY_SETTINGS to an Ivy settings file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from controller.domain.errors import BallastError
from controller.process.setup_java import find_java
from controller.process.setup_lock import GROUPS, Coordinate, Lock, LockedJar, sha256_of

SETTINGS_VARIABLE = "BALLAST_IVY_SETTINGS"
FETCH_TIMEOUT_S = 1_200
# What Ivy prints when a repository cannot be reached.
UNREACHABLE = r"(Host \S+ not found|UnknownHost|ConnectException|NoRouteToHost|SocketTimeout|timed out|refused).*"
PATTERN = "[artifact]-[revision].[ext]"


class SetupFailed(BallastError):
    """Raised when the cache cannot be completed; the message names the file and the next step."""


def ensure_jars(lock: Lock, cache: Path, say: Callable[[str], None] = print) -> None:
    """Verify the cache, download missing JARs, and remove those of other versions, which would be loaded too."""
    for group in GROUPS:
        wanted = lock.of_group(group)
        folder = cache / group
        folder.mkdir(parents=True, exist_ok=True)
        names = {jar.coordinate.file_name for jar in wanted}
        for file in folder.glob("*.jar"):
            if file.name not in names:
                say(f"removing {file.relative_to(cache)}: not in the lock")
                file.unlink()
        missing = [jar for jar in wanted if not (folder / jar.coordinate.file_name).exists()]
        verify([jar for jar in wanted if jar not in missing], cache)
        if missing:
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
                " Delete the file and run `make setup` again"
            )


def resolve_roots(roots: Sequence[tuple[str, Coordinate]]) -> list[LockedJar]:
    """The roots and their dependencies by Maven's metadata, without those that PySpark ships. To refresh the lock."""
    shipped = {_module_of(file.name) for file in pyspark_jars().glob("*.jar")}
    found: list[LockedJar] = []
    for group in GROUPS:
        wanted = [coordinate for of_group, coordinate in roots if of_group == group]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            retrieved = _ivy(wanted, folder, transitive=True, pattern="[organisation]/" + PATTERN)
            for file in sorted(retrieved.rglob("*.jar")):
                coordinate = _coordinate_of(file, retrieved)
                if group == "spark" and _module_of(file.name) in shipped:
                    continue
                found.append(LockedJar(group, coordinate, sha256_of(file)))
    return found


def pyspark_jars() -> Path:
    """The folder of JARs inside the installed PySpark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupFailed("PySpark is not installed in this environment: run `make setup`")
    return Path(spec.origin).parent / "jars"


def _download(missing: list[LockedJar], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        staged = _ivy([jar.coordinate for jar in missing], Path(temporary), transitive=False, pattern=PATTERN)
        for jar in missing:
            file = staged / jar.coordinate.file_name
            if not file.exists():
                raise SetupFailed(f"{jar.coordinate} was not delivered; run `make setup` again")
            found = sha256_of(file)
            if found != jar.sha256:
                raise SetupFailed(
                    f"checksum mismatch: {file.name} as downloaded has sha256 {found}, the lock says {jar.sha256}."
                    " Nothing was installed. Run `make setup` again; if it stays, the repository delivers another file"
                )
        # Only verified files enter the cache, each by an atomic rename: an interrupted run leaves no partial file.
        for jar in missing:
            shutil.move(staged / jar.coordinate.file_name, folder / jar.coordinate.file_name)


def _ivy(wanted: Sequence[Coordinate], work: Path, *, transitive: bool, pattern: str) -> Path:
    """Run Ivy for these artifacts; returns the folder with the files."""
    ivy_jar = next(iter(sorted(pyspark_jars().glob("ivy-*.jar"))), None)
    if ivy_jar is None:
        raise SetupFailed(f"no Ivy in {pyspark_jars()}: is this PySpark complete? Reinstall it with `make clean setup`")
    description, retrieved = work / "ivy.xml", work / "retrieved"
    description.write_text(_ivy_xml(wanted, transitive))
    command = [find_java().binary, "-jar", str(ivy_jar), "-ivy", str(description), "-cache", str(work / "ivy-cache")]
    command += ["-confs", "default", "-retrieve", f"{retrieved}/{pattern}", "-types", "jar", "bundle"]
    if os.environ.get(SETTINGS_VARIABLE):
        command += ["-settings", os.environ[SETTINGS_VARIABLE]]
    done = subprocess.run(
        command,
        cwd=work,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise SetupFailed(_explain(done.stdout + done.stderr, wanted))
    return retrieved


def _ivy_xml(wanted: Sequence[Coordinate], transitive: bool) -> str:
    configuration = "default->default" if transitive else "default->master"
    lines = [
        f"    <dependency org={quoteattr(c.org)} name={quoteattr(c.name)} rev={quoteattr(c.version)}"
        f' transitive="{str(transitive).lower()}" conf="{configuration}"/>'
        for c in wanted
    ]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            '  <info organisation="ballast" module="jars"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *lines,
            "  </dependencies>",
            "</ivy-module>",
        ]
    )


def _explain(output: str, wanted: Sequence[Coordinate]) -> str:
    unreachable = re.search(UNREACHABLE, output)
    if unreachable:
        return (
            f"cannot download {len(wanted)} JARs ({wanted[0]}, …): no way to the Maven repository"
            f" ({unreachable[0].strip()[:120]}). Connect this machine and run `make setup` again; afterwards it works"
            f" offline. Behind a mirror: name an Ivy settings file in {SETTINGS_VARIABLE}"
        )
    absent = re.findall(r":: ([\w.\-]+#[\w.\-]+;[\w.\-]+): not found", output)
    if absent:
        return f"not in the Maven repository: {', '.join(sorted(set(absent)))}. Check conf/jars.lock"
    return f"Ivy failed: {output.strip()[-600:]}"


def _module_of(file_name: str) -> str:
    """`kafka-clients-3.9.0.jar` → `kafka-clients`."""
    return re.sub(r"-\d[^-]*(-\d+|\.Final)?\.jar$", "", file_name)


def _coordinate_of(file: Path, base: Path) -> Coordinate:
    name = _module_of(file.name)
    return Coordinate(file.relative_to(base).parts[0], name, file.name[len(name) + 1 : -len(".jar")])
