"""Downloads exact Maven artifacts with the Ivy that PySpark ships, so that nothing else has to be installed.

The Maven repository is Ivy's default. An organisation with its own sets BALLAST_IVY_SETTINGS to an Ivy settings file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from controller.domain.errors import BallastError
from controller.process.interrupts import run_interruptibly
from controller.process.paths import SET_UP
from controller.process.setup_java import find_java, utf8_locale
from controller.process.setup_lock import Coordinate

SETTINGS_VARIABLE = "BALLAST_IVY_SETTINGS"
FETCH_TIMEOUT_S = 1_200
# What Ivy prints when a repository cannot be reached.
UNREACHABLE = r"(Host \S+ not found|UnknownHost|ConnectException|NoRouteToHost|SocketTimeout|timed out|refused).*"
PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


class SetupFailed(BallastError):
    """Raised when a cache cannot be completed; the message names the file and the next step."""


def pyspark_jars() -> Path:
    """The folder of JARs inside the installed PySpark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupFailed("PySpark is not installed in this environment: install Ballast with its dependencies")
    return Path(spec.origin).parent / "jars"


def fetch_artifacts(
    wanted: Sequence[Coordinate],
    work: Path,
    *,
    transitive: bool = False,
    pattern: str = PATTERN,
    again: str = f"`{SET_UP}`",
) -> Path:
    """Download the artifacts into `work`; returns the folder with the files, named by `pattern`.

    Raises SetupFailed; its message says to repeat `again`, the command that the user gave.
    """
    ivy_jar = next(iter(sorted(pyspark_jars().glob("ivy-*.jar"))), None)
    if ivy_jar is None:
        raise SetupFailed(f"no Ivy in {pyspark_jars()}: is this PySpark complete? Reinstall it with `make clean setup`")
    description, retrieved = work / "ivy.xml", work / "retrieved"
    description.write_text(_describe(wanted, transitive))
    types = sorted({"jar", "bundle", *(coordinate.extension for coordinate in wanted)})
    command = [find_java().binary, "-jar", str(ivy_jar), "-ivy", str(description), "-cache", str(work / "ivy-cache")]
    command += ["-confs", "default", "-retrieve", f"{retrieved}/{pattern}", "-types", *types]
    if os.environ.get(SETTINGS_VARIABLE):
        command += ["-settings", os.environ[SETTINGS_VARIABLE]]
    try:
        done = run_interruptibly(
            command,
            FETCH_TIMEOUT_S,
            cwd=work,
            env={**os.environ, **utf8_locale()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    except subprocess.TimeoutExpired:
        raise SetupFailed(f"{wanted[0]} was not downloaded within {FETCH_TIMEOUT_S} s: run {again} again") from None
    if done.returncode != 0:
        raise SetupFailed(_explain(done.stdout + done.stderr, wanted, again))
    return retrieved


def _describe(wanted: Sequence[Coordinate], transitive: bool) -> str:
    """The Ivy module that depends on the artifacts, as XML."""
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
            '  <info organisation="ballast" module="downloads"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *(_dependency(coordinate, transitive) for coordinate in wanted),
            "  </dependencies>",
            "</ivy-module>",
        ]
    )


def _dependency(wanted: Coordinate, transitive: bool) -> str:
    configuration = "default->default" if transitive else "default->master"
    opening = (
        f"    <dependency org={quoteattr(wanted.org)} name={quoteattr(wanted.name)} rev={quoteattr(wanted.version)}"
        f' transitive="{str(transitive).lower()}" conf="{configuration}"'
    )
    if wanted.is_jar:
        return f"{opening}/>"
    extension, classifier = quoteattr(wanted.extension), quoteattr(wanted.classifier)
    artifact = f"<artifact name={quoteattr(wanted.name)} type={extension} ext={extension} m:classifier={classifier}/>"
    return f"{opening}>{artifact}</dependency>"


def _explain(output: str, wanted: Sequence[Coordinate], again: str) -> str:
    unreachable = re.search(UNREACHABLE, output)
    if unreachable:
        what = f"{len(wanted)} files ({wanted[0]}, …)" if len(wanted) > 1 else str(wanted[0])
        return (
            f"cannot download {what}: no way to the Maven repository ({unreachable[0].strip().rstrip(')')[:120]})."
            f" Connect this machine and run {again} again; afterwards it works offline."
            f" Behind a mirror: name an Ivy settings file in {SETTINGS_VARIABLE}"
        )
    absent = re.findall(r":: ([\w.\-]+#[\w.\-]+;[\w.\-]+)(?:![\w.\-()]+)?: not found", output)
    absent += re.findall(r":: ([\w.\-]+#[\w.\-]+;[\w.\-]+![\w.\-()]+)$", output, re.MULTILINE)
    if absent:
        return f"not in the Maven repository: {', '.join(sorted(set(absent)))}. Check conf/jars.lock"
    return f"Ivy failed: {output.strip()[-600:]}"
