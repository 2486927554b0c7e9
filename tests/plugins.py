"""Packages with strategies of their own, put onto a path as an installer does it: modules, and metadata beside them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.process.paths import ROOT

tomllib = pytest.importorskip("tomllib")

GENTLE = ROOT / "docs" / "examples" / "gentle"


def install(project: Path, site: Path) -> None:
    """What `pip install --no-deps --target SITE PROJECT` leaves there."""
    about = tomllib.loads((project / "pyproject.toml").read_text())
    site.mkdir(exist_ok=True)
    for module in about["tool"]["setuptools"]["py-modules"]:
        shutil.copy(project / f"{module}.py", site)
    offered = about["project"]["entry-points"]["ballast.strategies"]
    write_metadata(site, about["project"]["name"], about["project"]["version"], offered)


def write_package(site: Path, name: str, offered: Mapping[str, str], code: str) -> None:
    """A package of one module, `name`, with this code; `offered`: strategy -> object of that module."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(code)
    write_metadata(site, name, "1.0", {strategy: f"{name}:{found}" for strategy, found in offered.items()})


def write_metadata(site: Path, name: str, version: str, offered: Mapping[str, str]) -> None:
    """`offered`: strategy -> module:object."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = [f"{strategy} = {where}" for strategy, where in offered.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[ballast.strategies]", *points, ""]))
