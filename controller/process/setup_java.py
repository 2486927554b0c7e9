"""Finds a Java that can run Spark and Kafka: version 17 or 21 with jdk.incubator.vector. Writes text as Java reads it.

JAVA_HOME is tried first, then `java` on PATH, then the usual folders; a JAVA_HOME that does not fit is reported in any
case. PySpark's launcher always passes `--add-modules=jdk.incubator.vector`, so it does not start on a reduced runtime
without that module.

Java takes a `.properties` file for ISO-8859-1 with backslash escapes, whatever the locale; of its arguments and of file
names, it decodes what the locale allows.
"""

from __future__ import annotations

import locale
import logging
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from controller.domain.errors import JavaNotFit

log = logging.getLogger(__name__)

FIT_VERSIONS = (17, 21)
VARIABLE = "JAVA_HOME"
NEEDED_MODULE = "jdk.incubator.vector"
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
)
UTF8_LOCALE = "C.UTF-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True)
class Java:
    """A Java home that fits, and how it was found."""

    home: Path
    version: int
    found_by: str

    @property
    def binary(self) -> str:
        return str(self.home / "bin" / "java")


def find_java(environ: Mapping[str, str] | None = None, places: tuple[str, ...] = USUAL_PLACES) -> Java:
    """The first Java that fits. Raises JavaNotFit, whose message lists those tried and the next step."""
    seen: dict[Path, str] = {}
    for home, found_by in _candidates(os.environ if environ is None else environ, places):
        resolved = home.resolve()
        if resolved in seen:
            continue
        version, fault = _examine(resolved)
        if version is not None and fault is None:
            if seen and next(iter(seen.values())).startswith(f"{VARIABLE} "):
                _warn_unfit(next(iter(seen.values())), f"Java {version} at {resolved} ({found_by})")
            return Java(resolved, version, found_by)
        seen[resolved] = f"{found_by} {home}: {fault}"
    raise JavaNotFit(
        f"no Java 17 or 21 with the module {NEEDED_MODULE} found ({'; '.join(seen.values()) or 'no Java at all'})."
        " Install a full JDK 17 (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME to one."
    )


def property_value(text: str) -> str:
    """The text as a value in a properties file, in ASCII."""
    escaped = "".join(c if c.isascii() else _escape(c) for c in text.translate(_ESCAPES))
    return f"\\{escaped}" if escaped[:1].isspace() else escaped


def utf8_locale() -> dict[str, str]:
    """What a JVM's environment needs besides this process's, so that it can open any path; nothing in a UTF-8 locale.

    Python itself reads and writes paths as UTF-8 in the locale C, too.
    """
    in_force = locale.nl_langinfo(locale.CODESET).replace("-", "").lower()
    return {} if in_force == "utf8" else {"LC_ALL": UTF8_LOCALE}


@lru_cache(maxsize=8)  # once a process
def _warn_unfit(unfit: str, taken: str) -> None:
    log.warning("%s; using %s instead: set JAVA_HOME to that, or unset it", unfit, taken)


def _candidates(environ: Mapping[str, str], places: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    if environ.get(VARIABLE):
        yield Path(environ[VARIABLE]), VARIABLE
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parents[1], "PATH"
    for pattern in places:
        expanded = Path(pattern).expanduser()
        for home in sorted(Path(expanded.anchor).glob(str(expanded.relative_to(expanded.anchor)))):
            if (home / "bin" / "java").exists():
                yield home, "found"


@lru_cache(maxsize=32)
def _examine(home: Path) -> tuple[int | None, str | None]:
    """(version, fault): one `java --list-modules` (0.1 s) shows both the version and the modules."""
    binary = home / "bin" / "java"
    if not binary.exists():
        return None, f"{binary} does not exist"
    try:
        done = subprocess.run([binary, "--list-modules"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"does not run ({error})"
    version = re.search(r"^java\.base@(\d+)", done.stdout, re.MULTILINE)
    if version is None:
        return None, "older than Java 9 or not a Java"
    number = int(version[1])
    if number not in FIT_VERSIONS:
        return number, f"version {number}, needed is 17 or 21"
    if not re.search(rf"^{re.escape(NEEDED_MODULE)}(@|$)", done.stdout, re.MULTILINE):
        return number, f"version {number} lacks the module {NEEDED_MODULE}"
    return number, None


def _escape(char: str) -> str:
    """Its UTF-16 units: two beyond the first 65,536 characters. Those that stand for undecodable bytes are one."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{unit:04x}" for unit in struct.unpack(f">{len(units) // 2}H", units))
