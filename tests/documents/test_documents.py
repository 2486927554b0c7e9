"""The documents name what exists: links lead somewhere, and the map of the code is the code."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from controller.ops.paths import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE_PATH = re.compile(r"`((?:docs|tests|benchmarks|controller|jobs|schemas|conf|notebooks)/[\w./-]+)`")
CODE = ("controller", "jobs", "schemas", "benchmarks")


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown page has: its headings as GitHub spells them, and those set by hand."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    spelt = (re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles)
    return {*spelt, *re.findall(r'<a id="([^"]+)"', text)}


def alternatives(pattern: str) -> list[str]:
    """`{a,b}.py` as `a.py` and `b.py`."""
    group = re.search(r"\{([^}]*)\}", pattern)
    if group is None:
        return [pattern]
    ways = (pattern[: group.start()] + way.strip() + pattern[group.end() :] for way in group[1].split(","))
    return list(itertools.chain.from_iterable(map(alternatives, ways)))


def mapped() -> list[str]:
    """The paths in the first columns of the tables of docs/architecture.md; a bare name is in the folder before it."""
    paths: list[str] = []
    heading, folder = "", ""
    for line in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            heading = ""
            continue
        first = line.split("|")[1]
        stated = re.search(r"file in `([^`]+)/`", first)
        if stated or first.strip() == "file":
            heading = stated[1] if stated else "."
        elif heading:
            for name in itertools.chain.from_iterable(map(alternatives, re.findall(r"`([^`]+)`", first))):
                folder = str(Path(name).parent) if "/" in name else (folder if heading == "." else heading)
                paths.append(f"{folder}/{Path(name).name}")
    return paths


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        other = (page.parent / target).resolve() if target else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            dead.append(f"{target}#{anchor}")
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    named = CODE_PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_path_of_the_map_exists() -> None:
    assert len(mapped()) > 150
    assert [path for path in mapped() if not list(ROOT.glob(path))] == []


def test_every_module_is_on_the_map() -> None:
    known = {file for path in mapped() for file in ROOT.glob(path)}
    modules = {file for folder in CODE for file in (ROOT / folder).rglob("*.py") if file.name != "__init__.py"}
    assert sorted(str(file.relative_to(ROOT)) for file in modules - known) == []
