"""Where things lie: the project's root, its configuration, its cache of JARs, the local run folder.

The root is the checkout, or BALLAST_HOME, or ~/.ballast where the package is installed elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from controller.domain.errors import ConfigError

ENV_HOME = "BALLAST_HOME"
CHECKOUT = Path(__file__).resolve().parents[2]
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")  # of an object store, or file:/


def home(env: Mapping[str, str] | None = None) -> Path:
    """The checkout, or where the package is installed elsewhere BALLAST_HOME, or ~/.ballast."""
    given = (os.environ if env is None else env).get(ENV_HOME)
    if given:
        return Path(absolute(given, f"environment variable {ENV_HOME}"))
    return CHECKOUT if (CHECKOUT / "conf" / "profiles").is_dir() else Path.home() / ".ballast"


def is_address(text: str) -> bool:
    """Whether it is no path but an address, such as s3://bucket/ballast."""
    return _ADDRESS.match(text) is not None


def located(text: str, folder: Path) -> str:
    """The place as an absolute path without `..`, one name for one place; an address stays as it is."""
    if is_address(text):
        return text
    try:
        place = folder / Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{text}: there is no such user; give an absolute path") from None
    # resolved and not shortened: beyond a link `..` leads elsewhere than to the folder before it
    return str(place.resolve() if ".." in place.parts else place)


def absolute(text: str, whence: str) -> str:
    """The place that somebody gave who stands nowhere. Raises ConfigError for a relative path."""
    place = located(text, Path("/"))
    if not is_address(text) and not Path(text).expanduser().is_absolute():
        meant = located(text, Path.cwd())
        raise ConfigError(
            f"{whence} = {text} is relative to nothing: give {meant}, if that is meant, or put it in a file"
        )
    return place


ROOT = home()
CONF = ROOT / "conf"
JARS = ROOT / ".cache" / "jars"
RUN = ROOT / "run"


def jars_of(group: str) -> list[Path]:
    """The JARs of one group (`spark` or `kafka`) as they lie in the cache; empty before `make setup`."""
    return sorted((JARS / group).glob("*.jar"))
