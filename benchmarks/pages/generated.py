"""The command of a page whose marked parts are generated: write it, or say that it is not up to date."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_parts(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The page with every part between its marks made anew. Raises KeyError for a part that nobody makes."""
    return _PART.sub(lambda match: f"{match[1]}{parts[match['name']]()}{match[3]}", page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_or_check(
    argv: Sequence[str] | None, page: Path, rendered: Callable[[str], str], description: str, outdated: str
) -> int:
    """Exit code 1, with `outdated` told, when the page is not up to date and was not to be written."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args(argv)
    text = page.read_text(encoding="utf-8")
    made = rendered(text)
    if given.write:
        page.write_text(made, encoding="utf-8")
    elif made != text:
        print(f"{page} {outdated}")
        return 1
    return 0
