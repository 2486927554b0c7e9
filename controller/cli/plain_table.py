"""Lays a table out for a pipe, line by line as rich does, which takes a second for a thousand brokers.

What needs more than spaces is left to rich: markup, cells with line breaks, words that are wider than a column.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

WRAPPED = 100  # characters of a column that wraps, however wide the terminal
_GAP = "  "
_MARKUP = re.compile(r"\[|:\w*[A-Za-z]\w*:")  # a tag, or the name of an emoji


def lay_out(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> list[str] | None:
    """The lines of a table without lines. Columns as `emit_table` takes them; None for what is rich's."""
    names = [column.removesuffix(" …").removesuffix(" >") for column in columns]
    table = [names, *rows]
    if any(_MARKUP.search(text) for text in (title, *names)) or not all(map(_is_plain, table)):
        return None
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    wraps = [at for at, column in enumerate(columns) if column.endswith(" …") and widths[at] > WRAPPED]
    for at in wraps:
        widths[at] = WRAPPED
        if not all(_can_wrap(row[at]) for row in table):
            return None
    if _width(title) > sum(widths) + len(_GAP) * (len(widths) - 1) or not _is_plain([title]):
        return None
    rights = [column.endswith(" >") for column in columns]
    lines = [title] if title else []
    for row in table:
        lines += _lines(row, widths, rights, wraps)
    return lines


def _lines(row: Sequence[str], widths: Sequence[int], rights: Sequence[bool], wraps: Sequence[int]) -> list[str]:
    """One row: a line, or several where a cell wraps."""
    broken = {at: _wrap(row[at]) for at in wraps if _width(row[at]) > WRAPPED}
    lines = []
    for number in range(max(map(len, broken.values()), default=1)):
        cells = [text if number == 0 else "" for text in row]
        for at, parts in broken.items():
            cells[at] = parts[number] if number < len(parts) else ""
        lines.append(_GAP.join(map(_pad, cells, widths, rights)).rstrip())
    return lines


def _can_wrap(text: str) -> bool:
    """Whether `_wrap` breaks it where rich does."""
    return _width(text) == len(text) and max(map(len, text.split(" "))) <= WRAPPED


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WRAPPED, break_long_words=False, break_on_hyphens=False)


def _pad(text: str, width: int, right: bool) -> str:
    room = " " * (width - _width(text))
    return room + text if right else text + room


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _is_plain(cells: Sequence[str]) -> bool:
    """Whether rich would print these as they are, but for wrapping."""
    return all(text.isprintable() and text == text.strip() and _GAP not in text for text in cells)
