"""Locations: the code, what is shipped with it, and the root with the cache of JARs and the local runs.

The root is BALLAST_HOME if set, else the checkout, or ~/.ballast where the package is installed without one. What is
shipped (`conf`, `notebooks`, `docs`) is in the checkout, or inside the installed package; a root that has `conf` of its
own goes before either.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from controller.domain.errors import ConfigError, label, printable

ENV_HOME = "BALLAST_HOME"
CODE = Path(__file__).resolve().parents[2]  # the folder that holds the packages controller, jobs and schemas
PACKAGED = CODE / "controller" / "shipped"  # where a wheel puts what is shipped; see setup.py
MOST_CHARS = 500  # of a path in an error
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")  # a URI, of an object store or file:/


def home(env: Mapping[str, str] | None = None) -> Path:
    """The root: BALLAST_HOME if set, else the checkout, or ~/.ballast without one. Raises ConfigError."""
    given = (os.environ if env is None else env).get(ENV_HOME)
    if given:
        return Path(absolute(given, f"environment variable {ENV_HOME}"))
    return CODE if _has_conf(CODE) else Path.home() / ".ballast"


def shipped(root: Path) -> Path:
    """The folder that holds `conf`, for this root."""
    return next(place for place in (root, CODE, PACKAGED) if place == PACKAGED or _has_conf(place))


def cache_of(root: Path) -> Path:
    """The folder of the cached JARs, below a root."""
    return root / ".cache" / "jars"


def _has_conf(folder: Path) -> bool:
    return (folder / "conf" / "profiles").is_dir()


def place_of_tables(root: str | Path) -> str:
    """The folder or address of all tables in its one spelling, by which processes know that they have the same."""
    text = str(root)
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


def make_folder(folder: Path, named: str = "") -> None:
    """Make a folder that can be written to, unless it is there. `named`: how the user named it, for the ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder} is not writable")
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"{named or folder} cannot be used ({why}): name a folder that can be written to") from None


def check_folder(folder: Path, named: str) -> None:
    """As `make_folder`, for a command that may still refuse to start: what was not there is not there afterwards."""
    missing = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    make_folder(folder, named)
    with contextlib.suppress(OSError):  # another process has begun to use it
        for place in missing:
            place.rmdir()


def is_address(text: str) -> bool:
    """Whether the text is a URI, such as s3://bucket/ballast, rather than a path."""
    return _ADDRESS.match(text) is not None


def resolve_location(text: str, folder: Path) -> str:
    """A path as an absolute one without `..`, relative to `folder`; a URI stays unchanged. Raises ConfigError."""
    if is_address(text):
        return text
    try:
        place = folder / Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{text}: there is no such user; give an absolute path") from None
    # Resolved rather than shortened: after a link, `..` does not lead to the folder before it.
    return str(place.resolve() if ".." in place.parts else place)


def absolute(text: str, whence: str) -> str:
    """A path that has no folder to be relative to. Raises ConfigError for a relative one, naming `whence`."""
    place = resolve_location(text, Path("/"))
    if not is_address(text) and not Path(text).expanduser().is_absolute():
        meant = printable(resolve_location(text, Path.cwd())[:MOST_CHARS])
        raise ConfigError(
            f"{whence} = {label(text)} is relative to nothing: give {meant}, if that is meant, or put it in a file"
        )
    return place


ROOT = home()
SHIPPED = shipped(ROOT)
CONF = SHIPPED / "conf"
SET_UP, START_DEMO = (  # the commands that fill the cache, and run a demo
    ("make setup", "make demo") if SHIPPED == CODE else ("ballast setup", "ballast demo")
)
JARS = cache_of(ROOT)
RUN = ROOT / "run"
EXTRA_JARS = JARS if os.environ.get(ENV_HOME) else Path.home() / ".cache" / "ballast" / "jars"  # large: no checkout's


def locate_shipped(names: str) -> str:
    """Shipped files, for messages: as they are named in a checkout, else with the folder where they are."""
    place = next((place for place in (SHIPPED, CODE) if (place / "docs" / "sql.md").is_file()), PACKAGED)
    return names if place == CODE else f"{names} in {place}"


def python_path(environ: Mapping[str, str]) -> str:
    """PYTHONPATH for a process that finds this very code, and all else that this one finds, whatever folder it works
    in."""
    given = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join([str(CODE), *map(os.path.abspath, given)])


def jars_of(group: str, cache: Path = JARS) -> list[Path]:
    """The cached JARs of one group (`spark` or `kafka`); empty before `make setup`."""
    return sorted((cache / group).glob("*.jar"))
