"""The lock file of what comes from Maven: exact coordinates and SHA-256 of every file.

It has four kinds of lines:

    root     GROUP  ORG:NAME:VERSION            written by hand; the only place where a JAR's version is
    jar      GROUP  ORG:NAME:VERSION  SHA256    a root or dependency, written by `… setup --refresh-lock`
    archive  NAME   ORG:NAME:VERSION:EXTENSION:CLASSIFIER  SHA256    written by hand; fetched when first needed
    extra    GROUP  ORG:NAME:VERSION  SHA256    written by hand; fetched when somebody asks for the group

JARs are in two groups, `spark` and `kafka`, which `make setup` completes. Extra ones are in groups of their own, with
only those of their dependencies that they need.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from controller.domain.errors import ConfigError

GROUPS = ("spark", "kafka")


@dataclass(frozen=True, order=True)
class Coordinate:
    """One Maven artifact; a JAR without a classifier unless it says otherwise."""

    org: str
    name: str
    version: str
    extension: str = "jar"
    classifier: str = ""

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        parts = text.split(":")
        if len(parts) not in (3, 5) or not all(parts):
            raise ConfigError(f"{text!r} is no coordinate: needed is ORG:NAME:VERSION[:EXTENSION:CLASSIFIER]")
        return cls(*parts)

    def __str__(self) -> str:
        base = f"{self.org}:{self.name}:{self.version}"
        return base if self.is_jar else f"{base}:{self.extension}:{self.classifier}"

    @property
    def is_jar(self) -> bool:
        return (self.extension, self.classifier) == ("jar", "")

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.extension}"


@dataclass(frozen=True, order=True)
class LockedJar:
    """One file of the cache: its group, coordinate and checksum."""

    group: str
    coordinate: Coordinate
    sha256: str


@dataclass(frozen=True, order=True)
class LockedArchive:
    """An archive that is unpacked when something first needs it: its name here, coordinate and checksum."""

    name: str
    coordinate: Coordinate
    sha256: str


@dataclass(frozen=True)
class Lock:
    """The contents of the file. `roots` are (group, coordinate) pairs."""

    roots: tuple[tuple[str, Coordinate], ...]
    jars: tuple[LockedJar, ...]
    archives: tuple[LockedArchive, ...] = ()
    extras: tuple[LockedJar, ...] = ()

    def of_group(self, group: str) -> list[LockedJar]:
        return [jar for jar in (*self.jars, *self.extras) if jar.group == group]

    def archive(self, name: str) -> LockedArchive:
        """The archive of that name. Raises ConfigError where the file has none."""
        for archive in self.archives:
            if archive.name == name:
                return archive
        raise ConfigError(f"the lock has no line `archive {name} …`: restore conf/jars.lock")


def read_lock(file: Path) -> Lock:
    """Parse the lock. Raises ConfigError naming the file, the line and what is wrong."""
    roots: list[tuple[str, Coordinate]] = []
    jars: list[LockedJar] = []
    archives: list[LockedArchive] = []
    extras: list[LockedJar] = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        fields = line.split("#", 1)[0].split()
        match fields:
            case []:
                continue
            case ["root", group, coordinate] if group in GROUPS:
                roots.append((group, Coordinate.parse(coordinate)))
            case ["jar", group, coordinate, sha256] if group in GROUPS and re.fullmatch("[0-9a-f]{64}", sha256):
                jars.append(LockedJar(group, Coordinate.parse(coordinate), sha256))
            case ["archive", name, coordinate, sha256] if re.fullmatch("[0-9a-f]{64}", sha256):
                archives.append(LockedArchive(name, Coordinate.parse(coordinate), sha256))
            case ["extra", group, coordinate, sha256] if group not in GROUPS and re.fullmatch("[0-9a-f]{64}", sha256):
                extras.append(LockedJar(group, Coordinate.parse(coordinate), sha256))
            case _:
                raise ConfigError(
                    f"{file}:{number}: {line.strip()!r} is neither `root GROUP ORG:NAME:VERSION` nor"
                    f" `jar GROUP ORG:NAME:VERSION SHA256` with a group of {', '.join(GROUPS)}, nor"
                    " `archive NAME ORG:NAME:VERSION:EXTENSION:CLASSIFIER SHA256`,"
                    " nor `extra GROUP ORG:NAME:VERSION SHA256` with a group of its own"
                )
    return Lock(tuple(roots), tuple(jars), tuple(archives), tuple(extras))


def write_jars(file: Path, jars: Iterable[LockedJar]) -> None:
    """Replace the `jar` lines; comments and `root` lines stay."""
    kept = [line for line in file.read_text().splitlines() if not line.startswith("jar ")]
    lines = [f"jar  {jar.group:5}  {jar.coordinate}  {jar.sha256}" for jar in sorted(jars)]
    file.write_text("\n".join([*kept, *lines]) + "\n")


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
