"""docs/modules.md from docstrings: the purpose of every room, and its files. `python -m benchmarks.pages.modules`"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.pages.generated import with_parts, write_or_check
from controller.process.paths import ROOT

PAGE = ROOT / "docs" / "modules.md"
PACKAGES = ("controller", "jobs", "schemas", "benchmarks")


def docstring_of(file: Path) -> str:
    """The module's docstring, or an empty string."""
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def rooms() -> list[Path]:
    """Every package, parents before their children."""
    found = (file.parent for name in PACKAGES for file in (ROOT / name).rglob("__init__.py"))
    return sorted(found, key=lambda folder: folder.relative_to(ROOT).parts)


def room_lines(folder: Path) -> Iterator[str]:
    """The room's heading and text, then a line for each of its files."""
    yield f"### `{folder.relative_to(ROOT)}/`"
    yield ""
    yield from docstring_of(folder / "__init__.py").splitlines()
    yield ""
    files = [file for file in sorted(folder.glob("*.py")) if file.name != "__init__.py"]
    yield from (f"- `{file.name}`: {_sentence(docstring_of(file))}" for file in files)
    if files:
        yield ""


def render(page: str) -> str:
    """Replace the list in the page."""
    return with_parts(page, {"rooms": lambda: "\n".join(line for room in rooms() for line in room_lines(room))})


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page. Returns 1 if it is not up to date."""
    outdated = "is not what the modules say: run `python -m benchmarks.pages.modules --write`"
    return write_or_check(argv, PAGE, render, "The page of all modules.", outdated)


def _sentence(text: str) -> str:
    """The first paragraph, on one line."""
    return " ".join(text.split("\n\n")[0].split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
