"""docs/pulsar.md lists every request that Ballast sends to a cluster, each with the role that it takes."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

from controller.process.paths import ROOT
from tests.pulsar.roles import REQUESTS

ROW = re.compile(r"^\| `(GET|PUT|POST|DELETE) (/\S+)` \|.*\| ([a-z -]+) \|$", re.MULTILINE)
SOURCES = ("controller/brokers/pulsar", "controller/agent/cluster", "controller/cli/pulsar")
PUT_TOGETHER = r'f"\{(?:base|_path_of\([^)]*\)|CONFIGURATION_PATH)\}(/[^"?]*)'
PATH_IN_CODE = re.compile(rf'"(/(?:admin|lookup)/v2/[^"?]*)|{PUT_TOGETHER}')


def test_every_request_is_listed_with_its_role() -> None:
    page = (ROOT / "docs" / "pulsar.md").read_text()
    assert sorted(ROW.findall(page)) == sorted(map(tuple, REQUESTS))


def test_every_path_in_the_code_is_listed() -> None:
    """By its fixed parts, as of paths that are put together: whatever is filled in counts as anything."""
    files = [file for folder in SOURCES for file in Path(ROOT / folder).rglob("*.py")]
    found = {whole or part for file in files for whole, part in PATH_IN_CODE.findall(file.read_text())}
    shapes = {re.sub(r"\{.*?\}", "*", path).rstrip("/") for path in found}
    unlisted = {shape for shape in shapes if not any(fnmatch(r.path, f"*{shape}*") for r in REQUESTS)}
    assert len(shapes) > 15, "the paths are found no more"
    assert not unlisted
