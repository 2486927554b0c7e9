"""The command of a page with generated parts: it writes the page, or checks that the page is up to date."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_parts(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Replace every marked part of the page. Raises KeyError for a part that is not in `parts`."""
    return _PART.sub(lambda match: f"{match[1]}{parts[match['name']]()}{match[3]}", page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_or_check(
    argv: Sequence[str] | None, page: Path, render: Callable[[str], str], description: str, outdated: str
) -> int:
    """Write the page with `--write`, otherwise check it. Returns 1 and prints `outdated` if it is not up to date."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args(argv)
    text = page.read_text(encoding="utf-8")
    rendered = render(text)
    if given.write:
        page.write_text(rendered, encoding="utf-8")
    elif rendered != text:
        print(f"{page} {outdated}")
        return 1
    return 0
