"""The documents name what exists: links lead somewhere, and the list of modules is what they say of themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.pages import modules
from controller.process.paths import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE_PATH = re.compile(r"`((?:docs|tests|benchmarks|controller|jobs|schemas|conf|notebooks)/[\w./-]+)`")


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown page has: its headings as GitHub spells them, and those set by hand."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    spelt = (re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles)
    return {*spelt, *re.findall(r'<a id="([^"]+)"', text)}


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


def test_the_list_of_modules_is_what_they_say() -> None:
    assert modules.main([]) == 0, "run `python -m benchmarks.pages.modules --write`"


@pytest.mark.parametrize("room", modules.rooms(), ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_says_what_it_is_for_and_is_no_warehouse(room: Path) -> None:
    assert modules.docstring_of(room / "__init__.py")
    assert len([file for file in room.glob("*.py") if file.name != "__init__.py"]) <= 20
